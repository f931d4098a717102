/**
 * Owns a door in a process of its own, with the flags of `npm start`, whose memory is measured: what the
 * hostile do to it is not mixed with what it costs to be them.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { TestGatewayOptions } from "./gateway.ts";
import { operator, WsClient } from "./ws-client.ts";

const PROCESS = fileURLToPath(new URL("./measured-door-process.ts", import.meta.url));

type Settings = Pick<TestGatewayOptions, "wsLimits" | "httpLimits" | "times" | "certificate">;

interface Measure {
  /** The most that was ever resident. */
  readonly peakBytes: number;
  /** What is resident after a full collection. */
  readonly residentBytes: number;
  readonly connections: number;
  readonly sessions: number;
}

export class MeasuredDoor implements AsyncDisposable {
  readonly port: number;
  readonly url: string;
  readonly #child: ChildProcess;
  /** What a client has to trust; null without TLS. */
  readonly #ca: string | null;
  #restBytes = 0;

  private constructor(child: ChildProcess, port: number, ca: string | null) {
    this.#child = child;
    this.#ca = ca;
    this.port = port;
    this.url = `${ca === null ? "ws" : "wss"}://127.0.0.1:${port}/ws`;
  }

  /** Open, and warm: it has served somebody. */
  static async open(settings: Settings = {}): Promise<MeasuredDoor> {
    const flags = ["--max-semi-space-size=4", "--expose-gc"];
    const child = spawn(process.execPath, [...flags, PROCESS, JSON.stringify(settings)], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    const [{ port }] = await once(child, "message");
    const door = new MeasuredDoor(child, port, settings.certificate?.chain ?? null);
    await door.serves();
    door.#restBytes = (await door.measure()).residentBytes;
    return door;
  }

  async measure(): Promise<Measure> {
    this.#child.send("measure");
    const [measure] = await once(this.#child, "message");
    return measure;
  }

  /** How much more than at its opening was resident at the worst moment since. */
  async grownBytes(): Promise<number> {
    return (await this.measure()).peakBytes - this.#restBytes;
  }

  /** Whether somebody honest is served. */
  async serves(): Promise<boolean> {
    const client = await WsClient.open(this.url, this.#ca === null ? {} : { ca: this.#ca });
    await client.call("connect", operator());
    const answer = await client.call("health");
    await client.close();
    return answer.ok === true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.disconnect();
    await once(this.#child, "exit");
  }
}
