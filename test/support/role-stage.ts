/**
 * Owns the stage of a test of the roles: the folders they live in, the roles, commands and clients that
 * are started on it, and the proof that nothing of them is left.
 *
 * 1. Everything started here names the stage's folder in its command line, environment or directory, so
 *    that it is found in the process table whoever its parent became.
 * 2. When the stage closes nothing of that lives any more, whatever the test did.
 * 3. A role whose log has a line with a name twice fails the test.
 */
import { mkdirSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type Client, connect } from "../../client/index.ts";
import { socketOpener } from "../../client/node/socket.ts";
import {
  identify,
  type ProcessIdentity,
  signalProcess,
  waitForEnd,
} from "../../host/process-identity.ts";
import { type Ended, LemonProcess } from "./lemon-process.ts";
import { doubledNames } from "./log-lines.ts";
import { type RoleEvent, RoleProcess } from "./role-process.ts";
import { type TempFolder, tempFolder } from "./temp-folder.ts";

/** Where `bin/lemon.mjs` keeps compiled code too: commands and roles start warm. */
const COMPILE_CACHE = join(import.meta.dirname, "../../.cache/compiled");

export type Environment = Readonly<Record<string, string>>;

export interface StartedController {
  readonly role: RoleProcess;
  readonly home: string;
  readonly url: string;
  readonly port: number;
  readonly ready: RoleEvent;
}

export interface StartedNode {
  readonly role: RoleProcess;
  readonly home: string;
  readonly name: string;
  readonly nodeId: string;
  readonly generation: number;
}

export class RoleStage implements AsyncDisposable {
  readonly #folder: TempFolder = tempFolder();
  readonly #roles: RoleProcess[] = [];
  readonly #clients: Client[] = [];

  get path(): string {
    return this.#folder.path;
  }

  /** A private folder of the stage. */
  folder(name: string): string {
    const path = join(this.path, name);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    return path;
  }

  /** `lemon <words> --json`, by the launcher. `HOME` is the stage's own, so that it is the default root. */
  role(words: readonly string[], home: string, environment: Environment = {}): RoleProcess {
    const role = new RoleProcess(words, {
      home,
      environment: { HOME: this.folder("user"), ...environment },
    });
    this.#roles.push(role);
    return role;
  }

  /** `lemon up` or `lemon start` on a free port, until it is ready. */
  async controller(
    command: "up" | "start",
    options: {
      readonly home?: string;
      readonly words?: readonly string[];
      readonly environment?: Environment;
    } = {},
  ): Promise<StartedController> {
    const home = options.home ?? join(this.path, "controller");
    const words = [command, "--port", "0", ...(options.words ?? [])];
    const role = this.role(words, home, options.environment);
    const ready = await role.said("ready");
    return { role, home, ready, url: String(ready["url"]), port: Number(ready["port"]) };
  }

  /** `lemon node join` to a controller, until it says that it serves. */
  async node(
    controller: Pick<StartedController, "url">,
    options: {
      readonly name?: string;
      readonly home?: string;
      readonly words?: readonly string[];
      readonly environment?: Environment;
    } = {},
  ): Promise<StartedNode> {
    const { name = "worker", home = join(this.path, "node") } = options;
    const words = ["--name", name, "--controller", controller.url, ...(options.words ?? [])];
    const role = this.role(["node", "join", ...words], home, options.environment);
    const joined = await role.said("joined");
    const { nodeId, generation } = joined;
    return { role, home, name, nodeId: String(nodeId), generation: Number(generation) };
  }

  /** A command of the CLI, to its end. */
  async lemon(words: readonly string[], environment: Environment): Promise<Ended> {
    return await this.command(words, environment).ended();
  }

  command(words: readonly string[], environment: Environment, cwd = this.path): LemonProcess {
    const { LEMON_NATS_SERVER = "" } = process.env;
    return new LemonProcess(words, {
      compileCache: COMPILE_CACHE,
      cwd,
      environment: { HOME: this.folder("user"), LEMON_NATS_SERVER, ...environment },
    });
  }

  async client(url: string, token: string | null): Promise<Client> {
    const client = await connect({
      url,
      token,
      clientId: "role-stage",
      openSocket: socketOpener(),
    });
    this.#clients.push(client);
    return client;
  }

  /** What lives of all that was started here, but for `except` and what they started. */
  living(): readonly ProcessIdentity[] {
    return processesNaming(this.path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.close();
    for (const role of this.#roles) role.child.kill("SIGKILL");
    await Promise.all(this.#roles.map((role) => role.ended()));
    // Their servers outlive them, and their reapers for a moment; both must go before the folder does.
    for (let left = this.living(); left.length > 0; left = this.living()) {
      for (const identity of left) signalProcess(identity, "SIGKILL");
      await Promise.all(left.map((identity) => waitForEnd(identity, 10_000)));
    }
    this.#folder[Symbol.dispose]();
    for (const { log } of this.#roles) {
      const unclear = log.split("\n").find((line) => doubledNames(line).length > 0);
      if (unclear !== undefined) throw new Error(`a line of the log has a name twice: ${unclear}`);
    }
  }
}

/** A run of `sh -c script`, with nothing on its stdin. */
export function shellRun(nodeId: string, processId: string, script: string, cwd = ".") {
  return {
    nodeId,
    processId,
    cwd,
    argv: ["/bin/sh", "-c", script],
    stdinBase64: "",
    timeoutMs: 60_000,
    maxOutputBytes: 65_536,
  };
}

/** The token that a controller keeps in its managed file. */
export function managedToken({ ready }: Pick<StartedController, "ready">): string {
  return readFileSync(String(ready["tokenFile"]), "utf8").trim();
}

const serverRecord = z.object({ server: z.object({ pid: z.number(), startTime: z.string() }) });

/** The nats-server that a role's folder (`controller/hub`, `nodes/<name>/server/<id>`) names, alive or not. */
export function recordedServer(directory: string): ProcessIdentity {
  const text = readFileSync(join(directory, "server.json"), "utf8");
  return serverRecord.parse(JSON.parse(text)).server;
}

/** Every live process whose command line, environment or directory names `path`. */
function processesNaming(path: string): ProcessIdentity[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    const identity = identify(Number(name));
    return identity !== null && names(`/proc/${name}`, path) ? [identity] : [];
  });
}

function names(folder: string, path: string): boolean {
  const reads = [
    () => readFileSync(join(folder, "cmdline"), "utf8"),
    () => readFileSync(join(folder, "environ"), "utf8"),
    () => readlinkSync(join(folder, "cwd")),
  ];
  return reads.some((read) => {
    try {
      return read().includes(path);
    } catch {
      // Gone meanwhile, or another account's.
      return false;
    }
  });
}

/** How long a hang is waited for before it fails the test, in ms. */
const HANG_MS = 30_000;
const LOOK_AGAIN_MS = 20;

/** Looks again and again, for what nothing tells of, until there is something to see. */
export async function until<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
): Promise<T> {
  const givenUpMs = performance.now() + HANG_MS;
  for (;;) {
    const seen = await look();
    if (seen !== undefined) return seen;
    if (performance.now() > givenUpMs) throw new Error(`never seen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
}
