/** Owns how a test starts a real native process and hears all of it. */
import { closeSync, constants, openSync } from "node:fs";
import { pino } from "pino";
import { CgroupContainment } from "../../host/containment/cgroup.ts";
import { SubreaperContainment } from "../../host/containment/subreaper.ts";
import type { Exit } from "../../host/native/wait.ts";
import { identify, type ProcessIdentity } from "../../host/process-identity.ts";
import { type NativeProcess, type OutputStream, SystemSpawner } from "../../host/spawner.ts";

export type Mode = "cgroup" | "subreaper";
type Options = ConstructorParameters<typeof SystemSpawner>[0];

/** What this machine and account can contain runs with; `subreaper` is always among them. */
export const MODES: readonly Mode[] = await modes();

async function modes(): Promise<Mode[]> {
  const cgroup = CgroupContainment.create();
  await cgroup?.close();
  return cgroup === null ? ["subreaper"] : ["cgroup", "subreaper"];
}

export function spawnerOf(mode: Mode, options: Partial<Options> = {}): SystemSpawner {
  return new SystemSpawner({
    log: pino({ level: "silent" }),
    containment: (exits) => {
      const cgroup = mode === "cgroup" ? CgroupContainment.create() : null;
      return cgroup ?? new SubreaperContainment(exits);
    },
    ...options,
  });
}

export interface Heard {
  readonly process: NativeProcess;
  /** Text of a stream so far. */
  text(stream: OutputStream): string;
  bytes(stream: OutputStream): Buffer;
  /** Resolves when both streams have ended. */
  readonly ended: Promise<void>;
  /** Resolves with the first line of stdout. */
  readonly firstLine: Promise<string>;
}

export interface Request {
  readonly argv: readonly string[];
  readonly executable?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly directory?: number;
  readonly stdin?: Uint8Array;
}

export const PATH = "/usr/local/bin:/usr/bin:/bin";

export async function start(spawner: SystemSpawner, request: Request): Promise<Heard> {
  const chunks: Record<OutputStream, Buffer[]> = { stdout: [], stderr: [] };
  const open = new Set<OutputStream>(["stdout", "stderr"]);
  const ended = Promise.withResolvers<void>();
  const line = Promise.withResolvers<string>();
  const bytes = (stream: OutputStream) => Buffer.concat(chunks[stream]);
  const root = openSync("/", constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const process = await spawner.start(
      {
        executable: request.executable ?? request.argv[0] ?? "",
        argv: request.argv,
        environment: request.environment ?? { PATH },
        directory: request.directory ?? root,
        stdin: request.stdin ?? Buffer.alloc(0),
      },
      {
        chunk(stream, chunk) {
          chunks[stream].push(Buffer.from(chunk));
          const text = String(bytes("stdout"));
          if (text.includes("\n")) line.resolve(text.slice(0, text.indexOf("\n")));
        },
        end(stream) {
          open.delete(stream);
          if (open.size === 0) ended.resolve();
        },
      },
    );
    return {
      process,
      text: (stream) => String(bytes(stream)),
      bytes,
      ended: ended.promise,
      firstLine: line.promise,
    };
  } finally {
    closeSync(root);
  }
}

export interface Finished {
  readonly exit: Exit;
  readonly stdout: string;
  readonly stderr: string;
  /** What `clear` said. */
  readonly cleared: boolean;
}

/** Runs to its end; its streams must end too. */
export async function run(spawner: SystemSpawner, request: Request): Promise<Finished> {
  const heard = await start(spawner, request);
  const exit = await heard.process.exited;
  const cleared = await heard.process.clear();
  await heard.ended;
  heard.process.release();
  return { exit, cleared, stdout: heard.text("stdout"), stderr: heard.text("stderr") };
}

export const shell = (script: string, ...args: string[]): readonly string[] => [
  "/bin/sh",
  "-c",
  script,
  "sh",
  ...args,
];

/** Of a process that lives, by a pid as it was printed. */
export function identityOf(pid: string | number): ProcessIdentity {
  const identity = identify(Number(pid));
  if (identity === null) throw new Error("the process should live");
  return identity;
}
