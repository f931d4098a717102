/**
 * Owns the start of one program, from what it needs of the machine to its execution.
 *
 * 1. Directory and program are found, and pipes opened, as soon as `prepare` says so: while the fence of the
 *    run is being written. Nothing is started before `start`, and a failure is told only there.
 * 2. It ends with `start` or with `discard`, once; it holds no descriptor afterwards.
 */
import type { AllowedRoots, PinnedDirectory } from "../../host/allowed-roots.ts";
import type { Clock } from "../../host/clock.ts";
import type { Environment } from "../../host/environment.ts";
import { findExecutable } from "../../host/executable.ts";
import type { Spawner } from "../../host/spawner.ts";
import type { ProcessRunRequest } from "../../protocol/process.ts";
import { Execution } from "./execution.ts";

/** What a start needs of the machine. */
export interface LaunchGround {
  readonly roots: AllowedRoots;
  readonly spawner: Spawner;
  /** What every run is given. */
  readonly environment: Environment;
  readonly clock: Clock;
}

type Found =
  | { readonly directory: PinnedDirectory; readonly executable: string }
  | { readonly failure: unknown };

export class Launch {
  readonly #ground: LaunchGround;
  readonly #request: ProcessRunRequest;
  #found: Found | null = null;
  #isOver = false;

  constructor(ground: LaunchGround, request: ProcessRunRequest) {
    this.#ground = ground;
    this.#request = request;
  }

  /** Never throws. */
  prepare(): void {
    if (this.#isOver || this.#found !== null) return;
    this.#ground.spawner.prepare();
    this.#found = this.#find();
  }

  /** Errors, with nothing started: what kept it from being prepared, and those of `Spawner.start`. */
  async start(): Promise<Execution> {
    const { spawner, environment, clock } = this.#ground;
    const { argv, stdin, timeoutMs, maxOutputBytes } = this.#request;
    try {
      this.#found ??= this.#find();
      if ("failure" in this.#found) throw this.#found.failure;
      const { directory, executable } = this.#found;
      const spec = {
        executable,
        argv,
        environment: { ...environment, PWD: directory.path },
        directory: directory.fd,
        stdin,
        timeoutMs,
        maxOutputBytes,
      };
      return await Execution.start(spawner, spec, clock);
    } finally {
      this.discard();
    }
  }

  /** Lets go of what was found. Idempotent. */
  discard(): void {
    this.#isOver = true;
    if (this.#found !== null && "directory" in this.#found) this.#found.directory.close();
  }

  #find(): Found {
    const { roots, environment } = this.#ground;
    const { argv, cwd } = this.#request;
    let directory: PinnedDirectory | undefined;
    try {
      directory = roots.openDirectory(cwd);
      return { directory, executable: findExecutable(argv[0] ?? "", environment["PATH"] ?? "") };
    } catch (failure) {
      directory?.close();
      return { failure };
    }
  }
}
