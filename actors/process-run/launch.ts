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
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
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

type Sentences = Readonly<Partial<Record<ErrorCode, string>>>;

/** The table's sentences do not say what it is that was not found: the node and the id could be meant as well. */
const DIRECTORY: Sentences = {
  not_found: "The working directory does not exist on the node",
  not_directory: "The working directory is not a directory",
  permission_denied: "The operating system refused access to the working directory",
  path_not_allowed: "The working directory is outside the node's allowed roots",
  invalid_path: "The path of the working directory is not acceptable",
};
const PROGRAM: Sentences = {
  permission_denied: "The operating system refused to execute the program",
};

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
      return await Execution.start(spawner, spec, clock).catch((failure: unknown) => {
        throw said(PROGRAM, failure);
      });
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
      directory = saying(DIRECTORY, () => roots.openDirectory(cwd));
      const path = environment["PATH"] ?? "";
      return { directory, executable: saying(PROGRAM, () => findExecutable(argv[0] ?? "", path)) };
    } catch (failure) {
      directory?.close();
      return { failure };
    }
  }
}

function saying<T>(sentences: Sentences, work: () => T): T {
  try {
    return work();
  } catch (failure) {
    throw said(sentences, failure);
  }
}

function said(sentences: Sentences, failure: unknown): unknown {
  if (!(failure instanceof LemonError)) return failure;
  const message = sentences[failure.code];
  if (message === undefined) return failure;
  const { code, wire, retrySafe, mutationMayHaveApplied, details } = failure;
  const known = { wire, retrySafe, mutationMayHaveApplied, details, cause: failure };
  return new LemonError(code, { message, ...known });
}
