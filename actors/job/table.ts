/**
 * Owns what is known of jobs without asking the store: those that have not ended, and of those that have the
 * last 256, with the logs of the last 16.
 */
import type { JobView } from "../../protocol/host-agent/job.ts";
import type { Job } from "./job.ts";
import { forgottenLog, type JobLog } from "./log.ts";
import type { FrameReader, LogLine } from "./messages.ts";
import type { JobState } from "./state.ts";

/** Jobs that have ended, of which `list` tells. */
export const ENDED_LISTED = 256;
const LOGS_KEPT = 16;

interface Ended {
  readonly view: JobView;
  readonly state: JobState;
  output: JobLog | null;
}

export class JobTable {
  readonly #active = new Map<string, Job>();
  /** The oldest end first. */
  readonly #ended = new Map<string, Ended>();

  /** Null when nothing is known of it here. */
  active(id: string): Job | null {
    return this.#active.get(id) ?? null;
  }

  has(id: string): boolean {
    return this.#active.has(id) || this.#ended.has(id);
  }

  add(job: Job): void {
    this.#active.set(job.id, job);
  }

  /** It is none after all. */
  remove(job: Job): void {
    if (this.#active.get(job.id) === job) this.#active.delete(job.id);
  }

  ended(job: Job): void {
    this.remove(job);
    this.#ended.set(job.id, { view: job.view(null), state: job.state, output: job.output });
    const values = [...this.#ended.values()];
    const outOfLogs = values.at(-1 - LOGS_KEPT);
    if (outOfLogs !== undefined) outOfLogs.output = null;
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > ENDED_LISTED && oldest !== undefined) this.#ended.delete(oldest);
  }

  /** Of a job that has ended; null when nothing is known of it here. */
  end(id: string): JobView | null {
    return this.#ended.get(id)?.view ?? null;
  }

  /** All that is known here, with the time of each admission. */
  all(): readonly { readonly queuedAtMs: number; readonly job: Job | JobView }[] {
    return [
      ...[...this.#active.values()]
        .filter(({ isAdmitted }) => isAdmitted)
        .map((job) => ({ queuedAtMs: job.state.queuedAtMs, job })),
      ...[...this.#ended.values()].map(({ state, view }) => ({
        queuedAtMs: state.queuedAtMs,
        job: view,
      })),
    ];
  }

  /** Its log; null when nothing is known of the job here. */
  log(id: string, lastEventId: number | null): FrameReader<LogLine> | null {
    const ended = this.#ended.get(id);
    const output = this.#active.get(id)?.output ?? ended?.output;
    if (output !== undefined && output !== null) return output.read(lastEventId);
    return ended === undefined ? null : forgottenLog(ended.state.startedAtMs !== null);
  }
}
