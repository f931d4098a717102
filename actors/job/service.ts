/**
 * Owns the door of jobs: a service, and an actor for each job that runs (host-agent contract, "Pattern B").
 * What leaves it is a `HostAgentError`.
 */
import { LemonError } from "../../protocol/errors.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import type { JobView } from "../../protocol/host-agent/job.ts";
import {
  type ActorRef,
  type ActorSpec,
  later,
  type SupervisorRef,
} from "../../supervision/actor.ts";
import type { CommandGround } from "./command.ts";
import { JobDesk } from "./desk.ts";
import { type JobReceipts, jobActor } from "./job.ts";
import type { FrameReader, Jobs, LogLine } from "./messages.ts";
import { JobKinds, type RegisteredKind } from "./registry.ts";

export interface JobServiceDeps extends CommandGround {
  readonly kinds: readonly RegisteredKind[];
  readonly receipts: JobReceipts;
}

/** A refusal of this side is a value to the kernel: what an actor throws of it would be a crash. */
type Answer<T> = { readonly value: T } | { readonly refusal: HostAgentError };

type ServiceProtocol = {
  start: (request: StartRequest) => Answer<JobView>;
  get: (id: string) => Answer<JobView>;
  list: (nothing: null) => Answer<readonly JobView[]>;
  cancel: (id: string) => Answer<JobView>;
  log: (request: LogRequest) => Answer<FrameReader<LogLine>>;
};

interface StartRequest {
  readonly kind: string;
  readonly body: unknown;
  readonly idempotencyKey: string | null;
}

interface LogRequest {
  readonly id: string;
  readonly lastEventId: number | null;
}

const POLICY = {
  restart: "permanent",
  intensity: { restarts: 5, windowMs: 60_000 },
  backoff: { firstMs: 100, maxMs: 5_000, resetAfterMs: 60_000 },
} as const;
/** An admission that has to be read back takes a few seconds; a first list reads the whole store. */
const CALL = { deadlineMs: 20_000 } as const;
const DRAIN_MS = 10_000;
/** A job that was told to stop is killed after 10 s; then its end is stored. */
const STOPPED_WITHIN_MS = 15_000;

/** Errors: `internal_error` for a kind that was registered twice. */
export async function startJobService(
  supervisor: SupervisorRef,
  deps: JobServiceDeps,
): Promise<Jobs> {
  const room = await supervisor.startSupervisor({
    id: "jobs",
    strategy: "one_for_one",
    stopOrder: "together",
    ...POLICY,
  });
  const { kinds, receipts, ...ground } = deps;
  const desk = new JobDesk({
    kinds: new JobKinds(kinds),
    receipts,
    ground,
    run: async (job) => void (await room.startActor(jobActor(job))),
  });
  return new Door(await room.startActor(serviceActor(desk)), desk, ground);
}

/** What it knows is the desk's: it outlives a crash of this actor. */
function serviceActor(desk: JobDesk): ActorSpec<ServiceProtocol> {
  return {
    id: "service",
    kind: "job-service",
    restart: "permanent",
    start: () => ({
      handlers: {
        start: ({ kind, body, idempotencyKey }) =>
          later(answerOf(desk.start(kind, body, idempotencyKey))),
        get: (id) => later(answerOf(desk.get(id))),
        list: () => later(answerOf(desk.list())),
        cancel: (id) => later(answerOf(desk.cancel(id))),
        log: ({ id, lastEventId }) => later(answerOf(desk.log(id, lastEventId))),
      },
    }),
  };
}

class Door implements Jobs {
  readonly #service: ActorRef<ServiceProtocol>;
  readonly #desk: JobDesk;
  readonly #ground: CommandGround;

  constructor(service: ActorRef<ServiceProtocol>, desk: JobDesk, ground: CommandGround) {
    this.#service = service;
    this.#desk = desk;
    this.#ground = ground;
  }

  start(kind: string, body: unknown, idempotencyKey: string | null): Promise<JobView> {
    return told(this.#service.ask("start", { kind, body, idempotencyKey }, CALL));
  }

  get(id: string): Promise<JobView> {
    return told(this.#service.ask("get", id, CALL));
  }

  list(): Promise<readonly JobView[]> {
    return told(this.#service.ask("list", null, CALL));
  }

  cancel(id: string): Promise<JobView> {
    return told(this.#service.ask("cancel", id, CALL));
  }

  log(id: string, lastEventId: number | null): Promise<FrameReader<LogLine>> {
    return told(this.#service.ask("log", { id, lastEventId }, CALL));
  }

  async drain(hurry: AbortSignal): Promise<void> {
    const desk = this.#desk;
    desk.close();
    if (await this.#idleWithin(DRAIN_MS, hurry)) return;
    desk.stopAll();
    if (await this.#idleWithin(STOPPED_WITHIN_MS, null)) return;
    this.#ground.log.warn("jobs are still under way after the drain");
  }

  async #idleWithin(withinMs: number, hurry: AbortSignal | null): Promise<boolean> {
    if (hurry?.aborted === true) return this.#desk.underWay === 0;
    const { promise: late, resolve } = Promise.withResolvers<boolean>();
    const cancelTimer = this.#ground.clock.after(withinMs, () => resolve(false));
    const hurried = (): void => resolve(false);
    hurry?.addEventListener("abort", hurried);
    const idle = await Promise.race([this.#desk.idle().then(() => true), late]);
    hurry?.removeEventListener("abort", hurried);
    cancelTimer();
    return idle;
  }
}

async function answerOf<T>(work: Promise<T>): Promise<Answer<T>> {
  try {
    return { value: await work };
  } catch (failure) {
    return { refusal: refusalOf(failure) };
  }
}

/** Of the kernel's own refusals only those of a message that was not handled are certain. */
const NOT_HANDLED: ReadonlySet<string> = new Set([
  "mailbox_full",
  "actor_unavailable",
  "message_expired",
]);

async function told<T>(asked: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await asked;
  } catch (cause) {
    const certain = cause instanceof LemonError && NOT_HANDLED.has(cause.code);
    throw new HostAgentError(certain ? "unavailable" : "timeout", { cause });
  }
  if ("refusal" in answer) throw answer.refusal;
  return answer.value;
}

/** What the store refuses begins nothing, in this life or a later one. Anything unknown is a fault of ours. */
function refusalOf(failure: unknown): HostAgentError {
  if (failure instanceof HostAgentError) return failure;
  if (!(failure instanceof LemonError)) throw failure;
  const message = `the records of jobs can not be read or written (${failure.code}); nothing was done`;
  return new HostAgentError("unavailable", { message, cause: failure });
}
