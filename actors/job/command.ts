/**
 * Owns one program that a job runs, from its start to the end of everything that it started. Invariants:
 *
 * 1. What it writes is heard line by line, to the last byte.
 * 2. Told to stop, the whole group has SIGTERM; what has not ended 10 s later is killed. Whatever of it still
 *    holds its output has as long as the program itself.
 * 3. It has ended when all of it has. One that can not be killed is waited for.
 */
import { closeSync, constants, openSync } from "node:fs";
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import type { Environment } from "../../host/environment.ts";
import { findExecutable } from "../../host/executable.ts";
import type { Exit } from "../../host/native/wait.ts";
import { OpenStreams } from "../../host/open-streams.ts";
import type { NativeProcess, OutputSink, OutputStream, Spawner } from "../../host/spawner.ts";
import type { JobCommand, JobExit } from "./kind.ts";
import { Lines } from "./lines.ts";

/** Between SIGTERM and SIGKILL (host-agent contract, "Timeouts"). */
export const STOP_GRACE_MS = 10_000;
/** What holds the output after the program's exit may be silent this long. */
const SILENT_MS = 250;
/** How long the output may take to end once all that wrote it is gone. */
const STREAMS_WITHIN_MS = 500;
const SIGKILL = 9;

/** What a job's programs need of the machine. */
export interface CommandGround {
  /** Made when the first program is run: most jobs run none. */
  readonly spawner: () => Spawner;
  /** What every program is given. */
  readonly environment: Environment;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Who hears a program. */
export interface CommandListener {
  line(stream: OutputStream, text: string): void;
  /** Something came, though it may be no whole line yet. */
  heard(): void;
}

export interface CommandEnd extends JobExit {
  /** It was told to stop, and had to be killed. */
  readonly killed: boolean;
}

export class Command {
  readonly ended: Promise<CommandEnd>;
  readonly #process: NativeProcess;
  readonly #output: CommandOutput;
  readonly #ground: CommandGround;
  readonly #stopping = Promise.withResolvers<void>();
  readonly #graceOver = Promise.withResolvers<void>();
  #cancelGrace: (() => void) | null = null;

  /** Starts the program in `/`. Errors, with nothing started: those of `findExecutable` and `Spawner.start`. */
  static async start(
    ground: CommandGround,
    command: JobCommand,
    listener: CommandListener,
  ): Promise<Command> {
    const environment: Environment = { ...ground.environment, ...command.environment, PWD: "/" };
    const executable = findExecutable(command.argv[0], environment["PATH"] ?? "");
    const output = new CommandOutput(listener, ground.clock);
    const directory = openSync("/", constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      const { argv, stdin = new Uint8Array(0) } = command;
      const spec = { executable, argv, environment, directory, stdin };
      return new Command(await ground.spawner().start(spec, output), output, ground);
    } finally {
      closeSync(directory);
    }
  }

  private constructor(process: NativeProcess, output: CommandOutput, ground: CommandGround) {
    this.#process = process;
    this.#output = output;
    this.#ground = ground;
    this.ended = this.#follow();
  }

  /** Idempotent; `ended` tells what came of it. */
  stop(): void {
    if (this.#cancelGrace !== null) return;
    const { clock, log } = this.#ground;
    this.#cancelGrace = clock.after(STOP_GRACE_MS, () => this.#graceOver.resolve());
    this.#stopping.resolve();
    this.#process.stop({ first: "SIGTERM", graceMs: STOP_GRACE_MS }).catch(() => {
      log.error("the system refused to stop a job's program; its end is waited for");
    });
  }

  async #follow(): Promise<CommandEnd> {
    try {
      const exit = await this.#process.exited;
      await this.#hearOut();
      if (!(await this.#process.clear())) {
        this.#ground.log.error("something that a job's program started could not be ended");
      }
      await this.#output.endedWithin(STREAMS_WITHIN_MS);
      this.#output.finish();
      return this.#endOf(exit);
    } finally {
      this.#cancelGrace?.();
      this.#process.release();
    }
  }

  /** What outlives the program may write until it has been silent; once told to stop, until its grace is over. */
  async #hearOut(): Promise<void> {
    const told = this.#stopping.promise.then(() =>
      Promise.race([this.#output.ended, this.#graceOver.promise]),
    );
    if (this.#cancelGrace === null) await Promise.race([this.#output.quiet(SILENT_MS), told]);
    if (this.#cancelGrace !== null) await told;
  }

  #endOf({ code, signal }: Exit): CommandEnd {
    const killed = this.#cancelGrace !== null && signal === SIGKILL;
    return { exitCode: code ?? 128 + (signal ?? 0), killed };
  }
}

class CommandOutput extends OpenStreams implements OutputSink {
  readonly #listener: CommandListener;
  readonly #lines: Readonly<Record<OutputStream, Lines>>;

  constructor(listener: CommandListener, clock: Clock) {
    super(clock);
    this.#listener = listener;
    const linesOf = (stream: OutputStream): Lines =>
      new Lines((text) => listener.line(stream, text));
    this.#lines = { stdout: linesOf("stdout"), stderr: linesOf("stderr") };
  }

  chunk(stream: OutputStream, bytes: Uint8Array): void {
    this.heard();
    this.#listener.heard();
    this.#lines[stream].chunk(bytes);
  }

  /** Hands on what came behind the last line ends. */
  finish(): void {
    this.#lines.stdout.end();
    this.#lines.stderr.end();
  }
}
