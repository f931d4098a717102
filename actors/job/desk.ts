/**
 * Owns the rules by which jobs are admitted, begin and are told of, across the lives of the actors. Invariants:
 *
 * 1. A request takes its place in the queue before it is admitted, and begins only after it was.
 * 2. One job comes of an idempotency key, in this life and in all later ones: its id is made of the key, so
 *    that its receipt is what is asked.
 * 3. A place is held until its job is settled.
 */
import { createHash, randomBytes } from "node:crypto";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import { type JobView, jobId } from "../../protocol/host-agent/job.ts";
import type { CommandGround } from "./command.ts";
import { JobHistory } from "./history.ts";
import { Job, type JobReceipts } from "./job.ts";
import { forgottenLog } from "./log.ts";
import type { FrameReader, LogLine } from "./messages.ts";
import { JobQueue } from "./queue.ts";
import type { JobKinds, RegisteredKind } from "./registry.ts";
import { intentOf, viewOf } from "./state.ts";
import { ENDED_LISTED, JobTable } from "./table.ts";

/** Jobs that wait or run. */
const UNDER_WAY_LIMIT = 256;
const ID_HEX_DIGITS = 16;

export interface DeskParts {
  readonly kinds: JobKinds;
  readonly receipts: JobReceipts;
  readonly ground: CommandGround;
  /** Has a job run, in an actor of its own. Rejects when there is no room for one. */
  readonly run: (job: Job) => Promise<void>;
}

export class JobDesk {
  readonly #parts: DeskParts;
  readonly #queue = new JobQueue<Job>();
  readonly #table = new JobTable();
  readonly #history: JobHistory;
  #draining = false;
  #tellIdle: (() => void)[] = [];

  constructor(parts: DeskParts) {
    this.#parts = parts;
    this.#history = new JobHistory(parts.receipts);
  }

  async start(kindName: string, body: unknown, key: string | null): Promise<JobView> {
    const kind = this.#parts.kinds.get(kindName);
    if (kind === undefined) throw new HostAgentError("not-found");
    if (this.#draining) throw new HostAgentError("shutting-down");
    const id = key === null ? newJobId() : jobIdOf(key);
    const { receipts, ground } = this.#parts;
    const job = new Job({ id, kind, prepared: kind.prepare(body), receipts, ground });
    try {
      const known = key !== null && (await this.#isKnown(id));
      if (!known) this.#enter(job, kind);
      return (await this.#admit(job, body, known)) ?? this.#admitted(job);
    } catch (failure) {
      this.#leave(job);
      job.discard();
      throw failure;
    }
  }

  async get(id: string): Promise<JobView> {
    const job = this.#table.active(id);
    if (job?.isAdmitted === true) return job.view(this.#queue.positionOf(job));
    return this.#table.end(id) ?? (await this.#stored(id));
  }

  async list(): Promise<readonly JobView[]> {
    const earlier = await this.#history.latest();
    const known = this.#table.all().map(({ queuedAtMs, job }) => ({
      queuedAtMs,
      view: job instanceof Job ? job.view(this.#queue.positionOf(job)) : job,
      isEnded: !(job instanceof Job),
    }));
    const stored = earlier
      .filter(({ id }) => !this.#table.has(id))
      .map(({ id, state }) => ({
        queuedAtMs: state.queuedAtMs,
        view: viewOf(id, state),
        isEnded: true,
      }));
    let endedLeft = ENDED_LISTED;
    return [...known.reverse(), ...stored]
      .sort((a, b) => b.queuedAtMs - a.queuedAtMs)
      .filter(({ isEnded }) => {
        if (isEnded) endedLeft -= 1;
        return !isEnded || endedLeft >= 0;
      })
      .map(({ view }) => view);
  }

  async cancel(id: string): Promise<JobView> {
    const job = this.#table.active(id);
    if (job === null || !job.isAdmitted) return await this.get(id);
    if (this.#queue.positionOf(job) === null) job.stop("cancelled");
    else this.#cancelWaiting(job, "cancelled");
    return job.view(null);
  }

  async log(id: string, lastEventId: number | null): Promise<FrameReader<LogLine>> {
    const log = this.#table.log(id, lastEventId);
    if (log !== null) return log;
    const { started_at } = await this.#stored(id);
    return forgottenLog(started_at !== undefined);
  }

  get underWay(): number {
    return this.#queue.size;
  }

  /** Takes no more jobs; those that wait never begin. */
  close(): void {
    this.#draining = true;
    for (const job of [...this.#queue.waiting]) {
      if (job.isAdmitted) this.#cancelWaiting(job, "agent");
    }
  }

  /** Tells all that run to stop. */
  stopAll(): void {
    for (const job of this.#queue.running) job.stop("agent");
  }

  /** Resolves when nothing waits or runs. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#tellIdle.push(resolve);
      this.#tellIfIdle();
    });
  }

  #enter(job: Job, kind: RegisteredKind): void {
    if (kind.whenBusy === "reject") {
      const all = [...this.#queue.running, ...this.#queue.waiting];
      const other = all.find((one) => one.kind === kind.name && one.id !== job.id);
      if (other !== undefined) {
        const message = `a job is already running: ${other.id}`;
        throw new HostAgentError("job-running", { message });
      }
    }
    if (this.#queue.size >= UNDER_WAY_LIMIT) throw new HostAgentError("too-many-jobs");
    this.#queue.enter(job);
  }

  /** Null when it was admitted; else the job that its key has made before. */
  async #admit(job: Job, body: unknown, known: boolean): Promise<JobView | null> {
    const intent = intentOf(job.kind, body);
    const { outcome, receipt, ...rest } = await this.#parts.receipts
      .admit(job.id, intent, job.state)
      .finally(() => intent.fill(0));
    if (outcome === "admitted") {
      // What was known of the id was an admission that failed meanwhile.
      if (known) this.#queue.enter(job);
      job.admitted(receipt);
      return null;
    }
    this.#leave(job);
    job.discard();
    if ("sameIntent" in rest && !rest.sameIntent) throw new HostAgentError("idempotency-conflict");
    return await this.get(job.id);
  }

  #admitted(job: Job): JobView {
    this.#table.add(job);
    this.#queue.ready(job);
    if (this.#draining) this.#cancelWaiting(job, "agent");
    this.#begin();
    return job.view(this.#queue.positionOf(job));
  }

  async #isKnown(id: string): Promise<boolean> {
    if (this.#table.has(id)) return true;
    return (await this.#parts.receipts.read(id)) !== null;
  }

  #leave(job: Job): void {
    this.#queue.leave(job);
    this.#begin();
    this.#tellIfIdle();
  }

  #begin(): void {
    for (const job of this.#queue.begin()) {
      job.begin();
      void job.settled.then(() => this.#settled(job));
      // Without an actor there is nobody to stop it with the others, and it is over all the same.
      this.#parts.run(job).catch(() => job.run().catch(() => {}));
    }
  }

  #settled(job: Job): void {
    this.#table.ended(job);
    this.#leave(job);
  }

  #cancelWaiting(job: Job, by: "cancelled" | "agent"): void {
    job.cancelWaiting(by);
    this.#table.ended(job);
    this.#leave(job);
  }

  async #stored(id: string): Promise<JobView> {
    if (!jobId.safeParse(id).success) throw new HostAgentError("unknown-job");
    const receipt = await this.#parts.receipts.read(id);
    if (receipt === null) throw new HostAgentError("unknown-job");
    return viewOf(id, receipt.state);
  }

  #tellIfIdle(): void {
    if (this.#queue.size > 0) return;
    for (const tell of this.#tellIdle.splice(0)) tell();
  }
}

function newJobId(): string {
  return `j_${randomBytes(ID_HEX_DIGITS / 2).toString("hex")}`;
}

/** The id of the job that a key makes: the same in every life. */
function jobIdOf(key: string): string {
  const digest = createHash("sha256").update(`job of idempotency key ${key}`).digest("hex");
  return `j_${digest.slice(0, ID_HEX_DIGITS)}`;
}
