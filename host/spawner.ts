/**
 * Owns native processes as the rest of lemon sees them: started, heard, stopped, and gone for certain.
 *
 * 1. A process is stopped through its group while its leader is unreaped, or through its cgroup: never
 *    through a number that could mean somebody else.
 * 2. A stop sends its deadly signal to the group at most once with success.
 * 3. After `release` no descriptor is held here, and nothing of the process is left running that could be
 *    found and ended. A worker that is killed meanwhile has its reaper do the same.
 */
import type { Logger } from "pino";
import { type ErrorCode, LemonError } from "../protocol/errors.ts";
import { ChildExits } from "./child-exits.ts";
import { type Clock, systemClock } from "./clock.ts";
import { ContainedProcess, type KillGroup } from "./contained-process.ts";
import { type Cell, type Containment, strongestContainment } from "./containment/containment.ts";
import { reapOrphans } from "./containment/orphans.ts";
import type { Environment } from "./environment.ts";
import type { Exit } from "./native/wait.ts";
import { ProcessStreams } from "./process-streams.ts";
import { Reaper } from "./reaper.ts";
import { errnoOf, SystemError, systemFailure } from "./system-error.ts";

export interface SpawnSpec {
  /** Absolute path (`findExecutable`). */
  readonly executable: string;
  readonly argv: readonly string[];
  readonly environment: Environment;
  /** Descriptor of the directory to start in. */
  readonly directory: number;
  /** What the process reads, followed by end of file. One that does not read it is no error. */
  readonly stdin: Uint8Array;
}

export type OutputStream = "stdout" | "stderr";

/** Who hears the process. */
export interface OutputSink {
  /** `bytes` are valid during the call only. */
  chunk(stream: OutputStream, bytes: Uint8Array): void;
  /** The last holder of the stream's other end closed it. */
  end(stream: OutputStream): void;
}

/** How a process is stopped: at once, or asked first. */
export type StopPolicy =
  | { readonly first: "SIGKILL" }
  | { readonly first: "SIGTERM"; readonly graceMs: number };

export const KILL_AT_ONCE: StopPolicy = { first: "SIGKILL" };

export interface NativeProcess {
  readonly pid: number;
  /** How the leader ended, once it did. What it started may live on until `clear`. */
  readonly exited: Promise<Exit>;
  /**
   * Stops the whole of it. Resolves when the deadly signal was sent, or the leader has ended; then
   * `clear` ends the rest. Error: `process_stop_failed` when the system refused the signal.
   */
  stop(policy: StopPolicy): Promise<void>;
  /** After the exit: ends and awaits what is left of it. False when something could not be ended. */
  clear(): Promise<boolean>;
  /** Lets go of it: closes the streams, and reaps it (as soon as it ends). Idempotent. */
  release(): void;
}

export interface Spawner {
  /** Does what can be done for a start that is near, and no harm when it never comes. Starts nothing. */
  prepare(): void;
  /**
   * Starts a process. Errors that leave no process behind: `executable_not_found`, `permission_denied`,
   * `argument_list_too_long`, `spawn_failed`. One that might: `process_outcome_unknown`.
   */
  start(spec: SpawnSpec, sink: OutputSink): Promise<NativeProcess>;
  /** Stops what still runs and ends the reaper. */
  close(): Promise<void>;
}

/** What it means when the program itself is refused. */
const FAILURES: Readonly<Record<string, ErrorCode>> = {
  ENOENT: "executable_not_found",
  ENOTDIR: "executable_not_found",
  ELOOP: "executable_not_found",
  ENAMETOOLONG: "executable_not_found",
  EACCES: "permission_denied",
  EPERM: "permission_denied",
  E2BIG: "argument_list_too_long",
};

/** How long the close waits for what was killed to be gone; the reaper has the last word. */
const END_WITHIN_MS = 5_000;

interface SpawnerOptions {
  readonly log: Logger;
  readonly clock?: Clock;
  /** For tests; else the strongest this machine has. */
  readonly containment?: (exits: ChildExits) => Containment;
  /** For tests; else kill(2). */
  readonly killGroup?: KillGroup;
}

const killGroup: KillGroup = (leader, signal) => {
  process.kill(-leader, signal);
};

interface Spawned {
  readonly cell: Cell;
  readonly pid: number;
  readonly streams: ProcessStreams;
}

/** The machine's own spawner; one a worker process. */
export class SystemSpawner implements Spawner {
  readonly #exits = new ChildExits();
  readonly #clock: Clock;
  readonly #killGroup: KillGroup;
  readonly #containment: Containment;
  readonly #reaper: Reaper;
  readonly #stopReapingOrphans: () => void;
  readonly #live = new Set<ContainedProcess>();
  /** Streams that the next process will have. */
  #streams: ProcessStreams | undefined;

  constructor(options: SpawnerOptions) {
    const { log, containment = strongestContainment } = options;
    this.#clock = options.clock ?? systemClock;
    this.#killGroup = options.killGroup ?? killGroup;
    let made: Containment | undefined;
    try {
      made = containment(this.#exits);
      this.#containment = made;
      this.#reaper = new Reaper(this.#exits, made, () => {
        log.warn("the reaper process ended; starting another");
      });
    } catch (failure) {
      void made?.close();
      this.#exits.close();
      throw systemFailure(failure);
    }
    const adopts = made.kind === "subreaper" || process.pid === 1;
    this.#stopReapingOrphans =
      adopts && process.platform === "linux" ? reapOrphans(this.#exits) : () => {};
  }

  get containment(): "cgroup" | "subreaper" {
    return this.#containment.kind;
  }

  /** The reaper's process, for a look at it from outside. */
  get reaperPid(): number {
    return this.#reaper.pid;
  }

  prepare(): void {
    this.#containment.prepare();
    try {
      this.#streams ??= new ProcessStreams();
    } catch {
      // No descriptor is left: the start will say so, if it is no better by then.
    }
  }

  async start(spec: SpawnSpec, sink: OutputSink): Promise<NativeProcess> {
    const { cell, pid, streams } = await this.#spawn(spec, sink);
    try {
      const forget = this.#reaper.watch(pid);
      const started = new ContainedProcess(pid, {
        streams,
        cell,
        exits: this.#exits,
        clock: this.#clock,
        killGroup: this.#killGroup,
        onReap: () => {
          forget();
          this.#live.delete(started);
        },
      });
      this.#live.add(started);
      return started;
    } catch (cause) {
      streams.close();
      this.#end(cell, pid);
      throw new LemonError("process_outcome_unknown", { cause });
    }
  }

  /** Ends what runs and can not be followed. */
  #end(cell: Cell, pid: number): void {
    void this.#exits.watch(pid).then(() => {
      this.#exits.reap(pid);
      cell.release();
    });
    try {
      if (cell.holdsAll) cell.kill();
      else this.#killGroup(pid, "SIGKILL");
    } catch {
      // The reaper has the last word.
    }
  }

  async #spawn(spec: SpawnSpec, sink: OutputSink): Promise<Spawned> {
    let cell: Cell | undefined;
    let streams = this.#streams;
    this.#streams = undefined;
    try {
      streams ??= new ProcessStreams();
      streams.attach(sink, spec.stdin);
      cell = this.#containment.open();
      const { executable, argv, directory } = spec;
      const environment = Object.entries(spec.environment).map(
        ([name, value]) => `${name}=${value}`,
      );
      const pid = await cell.spawn({ executable, argv, environment, directory }, streams.child);
      streams.handedOver();
      return { cell, pid, streams };
    } catch (failure) {
      streams?.close();
      cell?.release();
      throw spawnFailure(failure);
    }
  }

  async close(): Promise<void> {
    const ended = Promise.allSettled([...this.#live].map((process) => process.end()));
    let cancelTimer = (): void => {};
    const late = new Promise<void>((resolve) => {
      cancelTimer = this.#clock.after(END_WITHIN_MS, resolve);
    });
    await Promise.race([ended, late]);
    cancelTimer();
    this.#streams?.close();
    this.#reaper.close();
    this.#stopReapingOrphans();
    await this.#containment.close();
    this.#exits.close();
  }
}

function spawnFailure(failure: unknown): LemonError {
  if (failure instanceof LemonError) return failure;
  const errno = errnoOf(failure);
  if (errno === null) return new LemonError("internal_error", { cause: failure });
  // A pipe or a cgroup that is refused says nothing about the program.
  const isOfTheProgram = failure instanceof SystemError && failure.syscall === "posix_spawn";
  const code = (isOfTheProgram ? FAILURES[errno] : undefined) ?? "spawn_failed";
  return new LemonError(code, { details: { errno }, cause: failure });
}
