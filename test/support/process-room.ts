/** Owns a process service for tests: a real actor system, real processes, receipts in memory. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type ProcessService,
  type ProcessServiceDeps,
  startProcessService,
} from "../../actors/process-run/service.ts";
import { type ProcessState, processRuns } from "../../actors/process-run/state.ts";
import { pinRoots } from "../../host/allowed-roots.ts";
import { systemClock } from "../../host/clock.ts";
import type { NativeProcess, OutputSink, Spawner, SpawnSpec } from "../../host/spawner.ts";
import type { ProcessReceipt, ProcessRunRequest } from "../../protocol/process.ts";
import type { ActorSystem } from "../../supervision/actor.ts";
import { createActorSystem } from "../../supervision/system.ts";
import { type LogLines, logLines } from "./log-lines.ts";
import { type Disk, MemoryReceipts } from "./memory-receipts.ts";
import { PATH, shell } from "./native-run.ts";
import { type TempFolder, tempFolder } from "./temp-folder.ts";

export const NODE_ID = "11111111-2222-4333-8444-555555555555";

export interface ProcessRoom extends AsyncDisposable {
  readonly service: ProcessService;
  readonly receipts: MemoryReceipts<ProcessState>;
  readonly system: ActorSystem;
  readonly logged: LogLines;
  /** The one allowed root, and the default cwd. */
  readonly folder: string;
  /** How many programs were started, or tried to be. */
  readonly starts: () => number;
  /** Resolves when some program has written something. */
  readonly firstOutput: Promise<void>;
}

interface RoomOptions extends Partial<ProcessServiceDeps> {
  readonly spawner: Spawner;
  readonly disk?: Disk<ProcessState>;
}

export async function processRoom(options: RoomOptions): Promise<ProcessRoom> {
  const temp: TempFolder = tempFolder();
  const folder = join(temp.path, "work");
  mkdirSync(join(temp.path, "state"));
  mkdirSync(folder);
  const logged = logLines();
  const clock = options.clock ?? systemClock;
  const system = createActorSystem({ name: "test", log: logged.log, clock });
  const generation = options.generation ?? 1;
  const receipts = new MemoryReceipts(processRuns, generation, options.disk);
  const roots = pinRoots({
    roots: [folder],
    defaultCwd: folder,
    stateFolder: join(temp.path, "state"),
  });
  const spawner = new CountingSpawner(options.spawner);
  const service = await startProcessService(system.root, {
    nodeId: NODE_ID,
    receipts,
    roots,
    log: logged.log,
    environment: { PATH, HOME: folder },
    ...options,
    clock,
    generation,
    spawner,
  });
  return {
    service,
    receipts,
    system,
    logged,
    folder,
    starts: () => spawner.starts,
    firstOutput: spawner.firstOutput,
    async [Symbol.asyncDispose]() {
      receipts.letGo();
      receipts.comeBack();
      await system.shutdown();
      roots.close();
      temp[Symbol.dispose]();
    },
  };
}

class CountingSpawner implements Spawner {
  starts = 0;
  readonly #firstOutput = Promise.withResolvers<void>();
  readonly #spawner: Spawner;

  constructor(spawner: Spawner) {
    this.#spawner = spawner;
  }

  prepare(): void {
    this.#spawner.prepare();
  }

  async start(spec: SpawnSpec, sink: OutputSink): Promise<NativeProcess> {
    this.starts += 1;
    return await this.#spawner.start(spec, {
      chunk: (stream, bytes) => {
        sink.chunk(stream, bytes);
        this.#firstOutput.resolve();
      },
      end: (stream) => sink.end(stream),
    });
  }

  get firstOutput(): Promise<void> {
    return this.#firstOutput.promise;
  }

  close(): Promise<void> {
    return this.#spawner.close();
  }
}

export const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

const gateOf = ({ folder }: ProcessRoom): string => join(folder, "gate");

/** Says `up`, runs until the gate is opened, then exits with 5. */
export function gated(room: ProcessRoom): readonly string[] {
  return shell('echo up; while [ ! -e "$1" ]; do sleep 0.005; done; exit 5', gateOf(room));
}

export function openGate(room: ProcessRoom): void {
  writeFileSync(gateOf(room), "");
}

export async function untilState(
  { service }: ProcessRoom,
  state: ProcessReceipt["state"],
  processId: string,
): Promise<void> {
  while ((await service.get({ processId })).state !== state) await nextTurn();
}

/** What is told of an id that was never used. */
export const absent = (processId: string) => ({
  processId,
  nodeId: NODE_ID,
  state: "not_found",
  exitCode: null,
  stdout: null,
  stderr: null,
  outputTruncated: true,
});

export const textOf = (bytes: Uint8Array | null) =>
  bytes === null ? null : String(Buffer.from(bytes));

/** A receipt with its bytes as text. */
export function legible(receipt: ProcessReceipt) {
  return { ...receipt, stdout: textOf(receipt.stdout), stderr: textOf(receipt.stderr) };
}

let serial = 0;

/** A valid request with an id of its own; `changes` stand in for fields. */
export function request(
  argv: readonly string[],
  changes: Readonly<Record<string, unknown>> = {},
): Omit<ProcessRunRequest, "processId"> & { readonly processId: string } {
  serial += 1;
  return {
    processId: `run:${serial}`,
    cwd: ".",
    argv: [...argv],
    stdin: new Uint8Array(0),
    timeoutMs: 60_000,
    maxOutputBytes: 1_048_576,
    ...changes,
  };
}
