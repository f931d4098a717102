/**
 * Owns what is asked of the files of a node between its arrival and its answer: the queue in front of the
 * helper, and what its loss means (`service.ts`, invariants 2 to 4).
 */
import { randomBytes } from "node:crypto";
import { z } from "zod";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { FILE_BOUNDS, fileAnswers, type fileRequests } from "../../protocol/files.ts";
import type { ActorContext, ActorRef, SupervisorRef } from "../../supervision/actor.ts";
import type { IsolatedProtocol } from "../../supervision/isolated-process.ts";
import { Previews } from "../delete-preview/previews.ts";
import { type Asked, isLong, isMutation, type Operation } from "./operation.ts";
import { FairQueue, type Waiting } from "./queue.ts";

export type PreviewRequest = z.infer<typeof fileRequests.preview>;
export type Deletion = z.infer<typeof fileRequests.delete>;
export type Preview = z.infer<typeof fileAnswers.preview>;

/** What the helper answers to a preview. */
const previewed = fileAnswers.preview
  .omit({ confirmationToken: true, expiresAtMs: true })
  .extend({ candidates: z.instanceof(Uint8Array) });

export interface DeskOptions {
  readonly helper: Promise<ActorRef<IsolatedProtocol>>;
  readonly previews: Promise<SupervisorRef>;
  readonly clock: Clock;
  readonly watch: ActorContext<never>["watch"];
}

/** Beyond the helper's own deadline, which tells more. */
const HELPER = { deadlineMs: FILE_BOUNDS.helperMs + 1_000 } as const;
/** What is left of the broker's 30 s beside the helper's 25 and the way. */
const WAIT_MS = 4_000;
/** Path and bookkeeping. */
const OVERHEAD_BYTES = 8_192;

interface Work extends Waiting {
  /** Monotonic: when it is too late to begin. */
  readonly dueMs: number;
  /** Never rejects. */
  readonly run: () => Promise<void>;
  readonly refuse: (error: LemonError) => void;
}

export class Desk {
  readonly #options: DeskOptions;
  readonly #queue = new FairQueue<Work>();
  readonly #tokens: Previews;
  #helperIsReady = false;
  #isAtWork = false;
  #cancelPatience: CancelTimer | null = null;

  constructor(options: DeskOptions) {
    this.#options = options;
    this.#tokens = new Previews({
      place: options.previews,
      watch: options.watch,
      token: () => randomBytes(32).toString("base64url"),
    });
  }

  operate({ caller, operation }: Asked): Promise<unknown> {
    const bytes = operation.method === "write" ? operation.request.bytes.length : 0;
    const long = isLong(operation);
    return this.#inTurn({ caller, bytes, long }, () => this.#perform(operation));
  }

  preview({ caller, path, recursive }: PreviewRequest): Promise<Preview> {
    return this.#inTurn({ caller, bytes: 0, long: true }, async () => {
      this.#tokens.refuseWhenFull();
      const answer = await this.#perform({ method: "preview", request: { path, recursive } });
      const read = previewed.safeParse(answer);
      if (!read.success) throw new LemonError("internal_error", { mutationMayHaveApplied: false });
      const { candidates, ...told } = read.data;
      const kept = { path, candidates: candidates.slice() };
      const expiresAtMs = this.#options.clock.nowMs() + FILE_BOUNDS.previewMs;
      const confirmationToken = await this.#tokens.keep(kept, told.candidateCount);
      return { ...told, confirmationToken, expiresAtMs };
    });
  }

  delete({ caller, path, confirm, confirmationToken }: Deletion): Promise<unknown> {
    return this.#inTurn({ caller, bytes: 0, long: true }, async () => {
      const candidates = await this.#tokens.take(confirmationToken, path, confirm);
      return await this.#perform({ method: "delete", request: { path, candidates } });
    });
  }

  /** The helper of a new life can be asked. */
  async helperReady(): Promise<void> {
    const helper = await this.#options.helper;
    this.#options.watch(helper, () => this.#helperLost());
    this.#helperIsReady = true;
    this.#next();
  }

  close(): void {
    this.#cancelPatience?.();
    this.#helperIsReady = false;
    for (let work = this.#queue.next(); work !== null; work = this.#queue.next()) {
      work.refuse(new LemonError("unavailable"));
    }
  }

  #inTurn<T>({ caller, bytes, long }: Waiting, run: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#queue.enter({
      caller,
      bytes: bytes + OVERHEAD_BYTES,
      long,
      dueMs: this.#options.clock.monotonicMs() + WAIT_MS,
      run: () => run().then(resolve, reject),
      refuse: reject,
    });
    this.#next();
    this.#bePatient();
    return promise;
  }

  #next(): void {
    if (this.#isAtWork || !this.#helperIsReady) return;
    const work = this.#queue.next();
    if (work === null) return;
    this.#isAtWork = true;
    void work.run().then(() => {
      this.#isAtWork = false;
      this.#next();
    });
  }

  /** Refuses what has waited too long, when it has. One timer, for the one that waits longest. */
  #bePatient(): void {
    const { oldest } = this.#queue;
    if (this.#cancelPatience !== null || oldest === null) return;
    const leftMs = oldest.dueMs - this.#options.clock.monotonicMs();
    this.#cancelPatience = this.#options.clock.after(leftMs, () => {
      this.#cancelPatience = null;
      this.#refuseLate();
      this.#bePatient();
    });
  }

  #refuseLate(): void {
    const nowMs = this.#options.clock.monotonicMs();
    for (let work = this.#queue.oldest; work !== null; work = this.#queue.oldest) {
      if (work.dueMs > nowMs) return;
      this.#queue.leave(work);
      work.refuse(new LemonError("filesystem_busy"));
    }
  }

  async #perform(operation: Operation): Promise<unknown> {
    const helper = await this.#options.helper;
    try {
      return await helper.ask("call", operation, HELPER);
    } catch (error) {
      if (!(error instanceof LemonError)) throw error;
      switch (error.code) {
        case "actor_unavailable":
        case "mailbox_full":
        case "message_expired":
          this.#helperLost();
          throw new LemonError("filesystem_busy", { cause: error });
        case "actor_crashed":
        case "actor_ended":
        case "deadline_exceeded":
          this.#helperLost();
          throw interrupted(operation, error);
        default:
          throw error;
      }
    }
  }

  #helperLost(): void {
    this.#helperIsReady = false;
    this.#tokens.voidAll();
  }
}

/** Whatever the helper was at, it may have done or not. */
function interrupted(operation: Operation, cause: LemonError): LemonError {
  const mutation = isMutation(operation);
  return new LemonError("filesystem_outcome_unknown", {
    ...(mutation
      ? {}
      : { message: "The file helper ended before it answered; nothing was changed" }),
    wire: cause.wire === "TIMEOUT" ? "TIMEOUT" : "UNAVAILABLE",
    retrySafe: !mutation,
    mutationMayHaveApplied: mutation,
    cause,
  });
}
