/**
 * Owns jobs from before they can be served: while their receipt store is being opened every call is answered with
 * why it is not open, so that the rest of the agent serves meanwhile. That is an error for every call, reads
 * included: never an unknown job.
 */
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import type { JobView } from "../../protocol/host-agent/job.ts";
import { StoreOpening, type StoreOpeningOptions } from "../../transport/receipts/opening.ts";
import type { FrameReader, Jobs, LogLine } from "./messages.ts";
import type { JobState } from "./state.ts";

const UNWRITABLE =
  "The records of jobs can not be written any more; look at the disk, and restart host-agent";

export class JobOpening implements Jobs {
  /** Rejects with `receipt_store_unavailable` when this life of the agent can serve jobs no longer. */
  readonly failed: Promise<never>;
  readonly #opening: StoreOpening<JobState, Jobs>;

  constructor(options: StoreOpeningOptions<JobState, Jobs>) {
    this.#opening = new StoreOpening(options, UNWRITABLE);
    this.failed = this.#opening.failed;
  }

  /** Resolves after the first attempt, whatever came of it. */
  async begin(): Promise<void> {
    await this.#opening.begin();
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
    this.#opening.stopTrying();
    await this.#opening.service?.drain(hurry);
  }

  /** Lets go of the store; the service's actors end with their supervisor. */
  async close(): Promise<void> {
    await this.#opening.close();
  }

  #open(): Jobs {
    const { service, failure } = this.#opening;
    if (service !== null) return service;
    const message = `the records of jobs can not be read or written (${failure.code}); nothing was done`;
    throw new HostAgentError("unavailable", { message });
  }
}
