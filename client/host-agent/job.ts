/**
 * Owns a job as its starter sees it: read, followed, awaited, cancelled.
 *
 * 1. Its end is learned from the end of its log, not by asking again and again; only where no stream is to be had
 *    (the host serves 16 at a time) it is asked for once a second.
 * 2. A host-agent that restarts does not end the waiting: the job's record outlives it, and says what became of it.
 */
import { hasEnded, type JobView, type LogFrame } from "../../protocol/host-agent/job.ts";
import type { Timers } from "../timers.ts";
import type { HostAgent } from "./host-agent.ts";
import { type Frame, isPassing, PATIENCE_MS, pause, type StreamOptions } from "./streams.ts";

const ASK_EVERY_MS = 1_000;

/**
 * Behind every line that a log will ever have: the host sends nothing of what came before to who says that it has
 * all. It reads ids of up to 15 digits.
 */
const BEHIND_ALL = "999999999999999";

export interface EndedOptions {
  readonly signal?: AbortSignal;
  readonly onProgress?: (view: JobView) => void;
  /** For how long a host-agent that is away is waited for, in ms, each time. */
  readonly patienceMs?: number;
}

export class Job {
  readonly id: string;
  /** As it was when it was started or last read. */
  view: JobView;
  readonly #host: HostAgent;
  readonly #timers: Timers;

  constructor(host: HostAgent, view: JobView, timers: Timers) {
    this.#host = host;
    this.#timers = timers;
    this.id = view.job_id;
    this.view = view;
  }

  /** Errors: `unknown-job`, and those of every call. */
  async read(signal?: AbortSignal): Promise<JobView> {
    this.view = await this.#host.call("jobGet", { params: { id: this.id }, signal });
    return this.view;
  }

  /** Asks it to stop; how it ended stands in what `ended` resolves with. */
  async cancel(signal?: AbortSignal): Promise<void> {
    await this.#host.call("jobCancel", { params: { id: this.id }, body: {}, signal });
  }

  /** Its output: what the host still has of it, then live; it ends with the job. */
  log(options: StreamOptions = {}): AsyncIterableIterator<Frame<LogFrame>> {
    return this.#host.stream("jobLog", { params: { id: this.id } }, options);
  }

  /**
   * Resolves with the job once it has ended, however it ended. `onProgress` hears each change that is seen.
   * Errors: those of `read`; of a host-agent that is away, only after `patienceMs` (default 60,000).
   */
  async ended(options: EndedOptions = {}): Promise<JobView> {
    const { signal, onProgress } = options;
    let told = "";
    const look = async (): Promise<boolean> => {
      const view = await this.#readPatiently(options);
      const { status, progress, queue_position } = view;
      const seen = JSON.stringify([status, progress, queue_position]);
      if (seen !== told) onProgress?.(view);
      told = seen;
      return hasEnded(view);
    };
    while (!(await look())) {
      // Progress is no event of the host: who wants to see it has it asked for.
      const isLogOver = onProgress === undefined && (await this.#followed(options));
      if (isLogOver && (await look())) break;
      await pause(ASK_EVERY_MS, this.#timers, signal);
    }
    return this.view;
  }

  async #readPatiently({ signal, patienceMs = PATIENCE_MS }: EndedOptions): Promise<JobView> {
    const sinceMs = this.#timers.monotonicMs();
    for (;;) {
      try {
        return await this.read(signal);
      } catch (failure) {
        const isOver = this.#timers.monotonicMs() - sinceMs >= patienceMs;
        if (!isPassing(failure) || isOver) throw failure;
      }
      await pause(ASK_EVERY_MS, this.#timers, signal);
    }
  }

  /** Whether its log could be followed to its end. */
  async #followed({ signal, patienceMs }: EndedOptions): Promise<boolean> {
    try {
      const options = {
        after: BEHIND_ALL,
        ...(signal && { signal }),
        ...(patienceMs !== undefined && { patienceMs }),
      };
      for await (const _ of this.log(options));
      return true;
    } catch (failure) {
      if (!isPassing(failure)) throw failure;
      return false;
    }
  }
}
