/** Owns a machine for the tests of `lemon doctor`: everything is in place, and its controller is a `FakeControlPlane`. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Finding } from "../../cli/doctor/check.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { FakeControlPlane } from "./fake-control-plane.ts";
import { nodeDescription, nodeList, nodeRow } from "./node-rows.ts";
import { type TempFolder, tempFolder } from "./temp-folder.ts";
import { TestShell } from "./test-shell.ts";

const HEALTH = {
  ok: true,
  uptime_ms: 1,
  memory_mb: 1,
  schedulers: 1,
  summary: { action: "health" },
} as const;

export function vaultStatus(
  fields: Partial<ResultOf<"secrets.status">> = {},
): ResultOf<"secrets.status"> {
  return {
    configured: true,
    source: "file",
    keychainAvailable: false,
    envFallback: false,
    fileFallback: true,
    keychainErrorKind: null,
    healthy: true,
    owner: "default",
    count: 2,
    cleanup: {},
    summary: { problem: null },
    ...fields,
  };
}

export interface Examination {
  readonly exitCode: number;
  readonly find: (name: string) => Finding | undefined;
}

export class ExaminedMachine implements AsyncDisposable {
  readonly folder: string;
  /** LEMON_HOME. */
  readonly home: string;
  readonly peer: FakeControlPlane;
  readonly #temp: TempFolder;

  private constructor(temp: TempFolder, peer: FakeControlPlane) {
    this.#temp = temp;
    this.folder = temp.path;
    this.home = join(temp.path, "home");
    this.peer = peer;
  }

  static async open(): Promise<ExaminedMachine> {
    const machine = new ExaminedMachine(
      tempFolder(),
      await FakeControlPlane.start({ token: "secret" }),
    );
    mkdirSync(machine.home, { mode: 0o700 });
    machine.peer
      .on("health", () => HEALTH)
      .on("secrets.status", () => vaultStatus())
      .on("node.list", () => nodeList(nodeRow()))
      .on("node.describe", () => nodeDescription());
    return machine;
  }

  shell(environment: Readonly<Record<string, string>> = {}): TestShell {
    return new TestShell({
      environment: {
        LEMON_HOME: this.home,
        LEMON_CONTROLLER: this.peer.url,
        LEMON_WS_TOKEN: "secret",
        LEMON_NATS_SERVER: process.env["LEMON_NATS_SERVER"] ?? "",
        LEMON_CONTROL_PLANE_PORT: "1",
        ...environment,
      },
    });
  }

  /** Runs the doctor; what it says of any machine is held to on the way. */
  async examine(environment: Readonly<Record<string, string>> = {}): Promise<Examination> {
    const shell = this.shell(environment);
    const exitCode = await shell.run("doctor", "--json");
    const document = shell.document as { readonly ok: boolean; readonly checks: Finding[] };
    expect(document.ok).to.equal(exitCode === 0);
    expect(document.checks.some(({ level }) => level === "fail")).to.equal(exitCode === 1);
    for (const { level, mend } of document.checks) expect(mend === null).to.equal(level === "ok");
    return { exitCode, find: (name) => document.checks.find((check) => check.name === name) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.peer.stop();
    this.#temp[Symbol.dispose]();
  }
}
