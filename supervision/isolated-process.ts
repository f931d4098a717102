/**
 * Owns a process of our own that does what must not hang or break the one it serves: a call of the
 * operating system without end takes that process with it, and nobody else. Hosted as an actor, so that
 * the supervisor starts it again.
 *
 * 1. One request is under way at a time. It ends with the answer, or with the process: past its deadline
 *    (`deadline_exceeded`) the process is killed, and its unasked end settles it (`actor_ended`).
 * 2. One life of the actor has at most one process; when the actor ends, that has ended, or was killed. One
 *    that the system holds in a call of its own outlives its SIGKILL: it is told of, and lets the next life
 *    begin. `OUTLIVED` of them at once do not: each keeps its memory until the system lets go of it.
 * 3. The process inherits no descriptor but the channel, the memory for bytes and what it is handed, nor
 *    environment; it leads a session of its own (a terminal's Ctrl-C is not for it), and ends with its parent, however that ends
 *    (`isolated-child.ts`).
 */
import { type ChildProcess, fork } from "node:child_process";
import { closeSync } from "node:fs";
import { getCompileCacheDir } from "node:module";
import { fileURLToPath } from "node:url";
import type { Clock } from "../host/clock.ts";
import { openMemory } from "../host/native/memory.ts";
import { identify, type ProcessIdentity, signalProcess } from "../host/process-identity.ts";
import { LemonError } from "../protocol/errors.ts";
import type { ActorContext, ActorSpec, Behaviour } from "./actor.ts";
import { asked, readAnswer } from "./isolated-messages.ts";

export interface IsolatedProcessSpec {
  readonly id: string;
  readonly kind: string;
  /** The module that the process runs: it calls `serveIsolated`. */
  readonly entry: URL;
  /** What its first request is: with its answer the process is ready. */
  readonly opening: unknown;
  /** Descriptors that it is handed, in this order. They stay whoever's they are, and open. */
  readonly inherited?: readonly number[];
  /** How long the opening, and each request, may take, in ms. */
  readonly deadlineMs: number;
  /** Called in each life when its process is ready. */
  readonly onReady: () => void;
  /** Called with a process that was killed and does not end. */
  readonly onOutlived?: (outlived: Outlived) => void;
}

export interface Outlived {
  readonly pid: number;
  readonly ended: Promise<void>;
}

/** That may be there before the next life waits for the end of one. */
const OUTLIVED = 3;
/** How long the end of what was killed is waited for. */
const KILL_MS = 1_000;

export type IsolatedProtocol = {
  /** Resolves with what the process answers: plain data, bytes as bytes. */
  call: (request: unknown) => unknown;
};

/** V8 may keep three times this of young objects, in MiB: what is large here is bytes, outside its heap. */
const FLAGS = ["--max-semi-space-size=1"];

/** Where the process finds it, after the channel, and what it is handed behind it. */
const MEMORY_FD = 4;

export function isolatedProcess(spec: IsolatedProcessSpec): ActorSpec<IsolatedProtocol> {
  const outlived = new Set<Outlived>();
  const outlive = (process: Outlived, { log }: ActorContext<IsolatedProtocol>): void => {
    outlived.add(process);
    const { pid } = process;
    log.warn(
      { childPid: pid, outlived: outlived.size },
      "a killed process does not end: the system holds it in a call",
    );
    void process.ended.then(() => {
      outlived.delete(process);
      log.info({ childPid: pid, outlived: outlived.size }, "a killed process has ended at last");
    });
    spec.onOutlived?.(process);
  };
  return {
    id: spec.id,
    kind: spec.kind,
    restart: "permanent",
    async start(context) {
      while (outlived.size >= OUTLIVED) await oneEnded(outlived, context.signal);
      return startLife(spec, context, outlive);
    },
  };
}

/** Throws `actor_unavailable` when there is nothing to wait for any more. */
async function oneEnded(outlived: ReadonlySet<Outlived>, signal: AbortSignal): Promise<void> {
  const given = Promise.withResolvers<never>();
  const giveUp = (): void => given.reject(new LemonError("actor_unavailable"));
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    if (signal.aborted) giveUp();
    await Promise.race([given.promise, ...[...outlived].map(({ ended }) => ended)]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

function startLife(
  spec: IsolatedProcessSpec,
  context: ActorContext<IsolatedProtocol>,
  outlive: (process: Outlived, context: ActorContext<IsolatedProtocol>) => void,
): Behaviour<IsolatedProtocol> {
  const process = new Isolated(spec, context.clock);
  const { deadlineMs } = spec;
  // A slow start holds up the requests, and not whoever started the actor.
  const opened = process.call(spec.opening, deadlineMs);
  opened.then(spec.onReady, (failure: unknown) => context.crash(failure));
  void process.over.then(() => context.crash(new LemonError("actor_ended")));
  return {
    handlers: {
      call: async (request) => {
        await opened.catch((cause: unknown) => {
          throw new LemonError("actor_unavailable", { cause });
        });
        return await process.call(request, deadlineMs);
      },
    },
    async stop() {
      const left = await process.kill();
      if (left !== null) outlive(left, context);
    },
  };
}

interface UnderWay {
  readonly serial: number;
  readonly resolve: (result: unknown) => void;
  readonly reject: (failure: unknown) => void;
  readonly cancelDeadline: () => void;
}

class Isolated {
  /** It has ended, or was given up: one inside the system's own uninterruptible sleep outlives its SIGKILL. */
  readonly over: Promise<void>;
  readonly #over = Promise.withResolvers<void>();
  readonly #ended: Promise<void>;
  readonly #child: ChildProcess;
  readonly #identity: ProcessIdentity | null;
  readonly #clock: Clock;
  #memory: number | null;
  #underWay: UnderWay | null = null;
  #serial = 0;

  constructor({ entry, inherited = [] }: IsolatedProcessSpec, clock: Clock) {
    this.#clock = clock;
    this.over = this.#over.promise;
    const memory = openMemory("lemon");
    this.#memory = memory;
    const told = [memory === null ? 0 : MEMORY_FD, ...inherited.map((_, at) => MEMORY_FD + 1 + at)];
    this.#child = fork(fileURLToPath(entry), told.map(String), {
      execArgv: FLAGS,
      env: environment(),
      cwd: "/",
      detached: true,
      serialization: "advanced",
      stdio: ["ignore", "ignore", "ignore", "ipc", memory ?? "ignore", ...inherited],
    });
    const { pid } = this.#child;
    this.#identity = pid === undefined ? null : identify(pid);
    this.#child.on("message", (message: unknown) => this.#answered(message));
    this.#ended = new Promise((resolve) => {
      // The first when it could not be started, or not be written to; what follows is its end.
      this.#child.on("error", () => {
        if (pid === undefined) resolve();
      });
      this.#child.once("exit", () => resolve());
    });
    void this.#ended.then(() => this.#giveUp(new LemonError("actor_ended")));
  }

  call(request: unknown, deadlineMs: number): Promise<unknown> {
    if (this.#underWay !== null) throw new LemonError("unavailable");
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#serial += 1;
    const serial = this.#serial;
    const cancelDeadline = this.#clock.after(deadlineMs, () =>
      this.#giveUp(new LemonError("deadline_exceeded")),
    );
    this.#underWay = { serial, resolve, reject, cancelDeadline };
    if (this.#child.connected) {
      this.#child.send(asked(serial, request, this.#memory), (failure) => {
        if (failure !== null) this.#giveUp(new LemonError("actor_ended"));
      });
    } else {
      this.#giveUp(new LemonError("actor_ended"));
    }
    return promise;
  }

  /** Null when it has ended. What is left holds nothing of ours up. */
  async kill(): Promise<Outlived | null> {
    this.#giveUp(new LemonError("actor_ended"));
    const patience = Promise.withResolvers<false>();
    const cancel = this.#clock.after(KILL_MS, () => patience.resolve(false));
    const hasEnded = await Promise.race([this.#ended.then(() => true), patience.promise]);
    cancel();
    const { pid } = this.#child;
    if (hasEnded || pid === undefined) return null;
    if (this.#child.connected) this.#child.disconnect();
    this.#child.unref();
    return { pid, ended: this.#ended };
  }

  #answered(message: unknown): void {
    const answer = readAnswer(message, this.#memory);
    if (answer === null || answer.serial !== this.#underWay?.serial) {
      this.#giveUp(new LemonError("actor_ended"));
      return;
    }
    const call = this.#take();
    if (answer.failure === null) call?.resolve(answer.result);
    else call?.reject(answer.failure);
  }

  /** Whatever it still does, nobody hears of it. */
  #giveUp(why: LemonError): void {
    this.#take()?.reject(why);
    // After whoever waits for that call has been told.
    setImmediate(() => this.#over.resolve());
    if (this.#identity !== null) signalProcess(this.#identity, "SIGKILL");
    if (this.#memory !== null) closeSync(this.#memory);
    this.#memory = null;
  }

  #take(): UnderWay | null {
    const call = this.#underWay;
    this.#underWay = null;
    call?.cancelDeadline();
    return call;
  }
}

/** Nothing of ours but where compiled code is kept, so that it starts as fast as we did. */
function environment(): NodeJS.ProcessEnv {
  const cache = getCompileCacheDir();
  return cache === undefined ? {} : { NODE_COMPILE_CACHE: cache };
}
