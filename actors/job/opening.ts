/**
 * Owns jobs from before they can be served: it opens their receipt store, again while that may help, and until
 * then answers every call with why it is not open, so that the rest of the agent serves meanwhile.
 *
 * 1. A store that is not open is an error for every call, reads included: never an unknown job.
 * 2. A store whose witness can not be written any more serves no longer: only a new life of the agent can tell
 *    what the disk holds, and it is asked for (`failed`).
 * 3. A damaged store is not tried again.
 */
import type { Logger } from "pino";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import type { JobView } from "../../protocol/host-agent/job.ts";
import type { OpenReceiptStore } from "../../transport/receipts/receipt.ts";
import type { FrameReader, Jobs, LogLine } from "./messages.ts";
import type { JobState } from "./state.ts";

export interface JobOpeningOptions {
  readonly openStore: () => Promise<OpenReceiptStore<JobState>>;
  readonly startService: (store: OpenReceiptStore<JobState>) => Promise<Jobs>;
  readonly clock: Clock;
  readonly log: Logger;
}

const RETRY_MS = { first: 500, longest: 15_000 } as const;

export class JobOpening implements Jobs {
  /** Rejects with `receipt_store_unavailable` when this life of the agent can serve jobs no longer. */
  readonly failed: Promise<never>;
  readonly #options: JobOpeningOptions;
  readonly #fail: (failure: LemonError) => void;
  #store: OpenReceiptStore<JobState> | null = null;
  #jobs: Jobs | null = null;
  #why = "receipt_store_unavailable";
  #cancelRetry: CancelTimer = () => {};
  #closed = false;

  constructor(options: JobOpeningOptions) {
    this.#options = options;
    const { promise, reject } = Promise.withResolvers<never>();
    // Whoever waits for it hears of it; nobody has to.
    promise.catch(() => {});
    this.failed = promise;
    this.#fail = reject;
  }

  /** Resolves after the first attempt, whatever came of it. */
  async begin(): Promise<void> {
    await this.#attempt(RETRY_MS.first);
  }

  async start(kind: string, body: unknown, idempotencyKey: string | null): Promise<JobView> {
    return await this.#open().start(kind, body, idempotencyKey);
  }

  async get(jobId: string): Promise<JobView> {
    return await this.#open().get(jobId);
  }

  async list(): Promise<readonly JobView[]> {
    return await this.#open().list();
  }

  async cancel(jobId: string): Promise<JobView> {
    return await this.#open().cancel(jobId);
  }

  async log(jobId: string, lastEventId: number | null): Promise<FrameReader<LogLine>> {
    return await this.#open().log(jobId, lastEventId);
  }

  async drain(hurry: AbortSignal): Promise<void> {
    this.#cancelRetry();
    await this.#jobs?.drain(hurry);
  }

  /** Lets go of the store; the service's actors end with their supervisor. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelRetry();
    await this.#store?.close();
  }

  #open(): Jobs {
    if (this.#jobs !== null) return this.#jobs;
    const message = `the records of jobs can not be read or written (${this.#why}); nothing was done`;
    throw new HostAgentError("unavailable", { message });
  }

  async #attempt(nextMs: number): Promise<void> {
    const { openStore, startService, clock, log } = this.#options;
    try {
      const store = await openStore();
      if (this.#closed) {
        await store.close();
        return;
      }
      this.#store = store;
      store.watch(() => {
        if (store.condition === "failed") this.#fail(unwritable());
      });
      this.#jobs = await startService(store);
    } catch (failure) {
      if (!(failure instanceof LemonError)) throw failure;
      this.#why = failure.code;
      log.error({ code: failure.code }, "the records of jobs could not be opened");
      if (failure.code === "receipt_store_damaged" || this.#closed) return;
      this.#cancelRetry = clock.after(nextMs, () => {
        this.#attempt(Math.min(2 * nextMs, RETRY_MS.longest)).catch((fault: unknown) => {
          log.error(
            { fault: fault instanceof Error ? fault.name : typeof fault },
            "a fault of ours",
          );
          this.#fail(unwritable());
        });
      });
    }
  }
}

function unwritable(): LemonError {
  return new LemonError("receipt_store_unavailable", {
    message: "The records of jobs can not be written any more; restart host-agent",
  });
}
