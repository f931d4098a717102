/**
 * Owns a job as its starter sees it: read, followed, awaited, cancelled.
 *
 * 1. Its end is learned from the end of its log, not by asking again and again; only where no stream is to be had
 *    (the host serves 16 at a time) it is asked for once a second.
 */
import { hasEnded, type JobView, type LogFrame } from "../../protocol/host-agent/job.ts";
import type { Timers } from "../timers.ts";
import { HostAgentCallError } from "./errors.ts";
import type { HostAgent } from "./host-agent.ts";
import type { Frame, StreamOptions } from "./streams.ts";

const ASK_EVERY_MS = 1_000;

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

  /** Resolves with the job once it has ended, however it ended. `onProgress` hears each change that is seen. */
  async ended(
    options: { readonly signal?: AbortSignal; readonly onProgress?: (view: JobView) => void } = {},
  ): Promise<JobView> {
    const { signal, onProgress } = options;
    let told = "";
    const look = async (): Promise<boolean> => {
      const view = await this.read(signal);
      const { status, progress, queue_position } = view;
      const seen = JSON.stringify([status, progress, queue_position]);
      if (seen !== told) onProgress?.(view);
      told = seen;
      return hasEnded(view);
    };
    // Progress is no event of the host: who wants to see it has it asked for.
    if (onProgress !== undefined) await this.#asking(look, signal);
    else {
      while (!(await look())) await this.#followed(look, signal);
    }
    return this.view;
  }

  async #followed(look: () => Promise<boolean>, signal: AbortSignal | undefined): Promise<void> {
    try {
      // Only the end counts; the host sends nothing of what came before to who says that it has all.
      const options = { after: String(Number.MAX_SAFE_INTEGER), ...(signal && { signal }) };
      for await (const _ of this.log(options));
    } catch (failure) {
      const isFull = failure instanceof HostAgentCallError && failure.code === "too-many-streams";
      if (!isFull) throw failure;
      await this.#asking(look, signal);
    }
  }

  async #asking(look: () => Promise<boolean>, signal: AbortSignal | undefined): Promise<void> {
    while (!(await look())) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          cancel();
          signal?.removeEventListener("abort", done);
          resolve();
        };
        const cancel = this.#timers.after(ASK_EVERY_MS, done);
        signal?.addEventListener("abort", done, { once: true });
      });
    }
  }
}
