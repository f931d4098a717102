/**
 * Owns the connection of a transfer, which may be cut and come back: the first must come about at once, later
 * ones are waited for.
 *
 * 1. `again` repeats what is safe to repeat and may work soon, and nothing else; it gives up when nothing worked
 *    for a minute. A full disk is told at once.
 * 2. What may have changed something is sent once; whoever sent it reads what is there before he goes on.
 * 3. An interrupt lets what was sent be answered and sends nothing more, so that its outcome is known. A second
 *    one ends the command as it ends any.
 */
import { type Client, type ConnectOptions, connect } from "../../client/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import { connectOptions } from "../dial.ts";
import type { Report } from "../report.ts";
import type { Shell, ShellSignal } from "../shell.ts";
import { resolveTarget, type Target, type TargetFlags } from "../target.ts";

/** How long to go on while nothing works, in ms. */
const PATIENCE_MS = 60_000;
/** Between two tries: from the first to the last pause, in ms. */
const PAUSE_MS = { first: 250, last: 2_000 } as const;
const ENDING: readonly ShellSignal[] = ["SIGINT", "SIGTERM", "SIGHUP"];

export class Link {
  readonly target: Target;
  readonly #shell: Shell;
  readonly #report: Report;
  readonly #options: ConnectOptions;
  #client: Client;
  #connecting: Promise<Client> | null = null;
  readonly #stop = Promise.withResolvers<void>();
  #isStopped = false;
  #release: readonly (() => void)[];

  private constructor(
    shell: Shell,
    report: Report,
    target: Target,
    options: ConnectOptions,
    client: Client,
  ) {
    this.#shell = shell;
    this.#report = report;
    this.target = target;
    this.#options = options;
    this.#client = client;
    this.#release = ENDING.map((signal) => shell.onSignal(signal, () => this.#stopped()));
  }

  static async open(shell: Shell, report: Report, flags: TargetFlags): Promise<Link> {
    const target = await resolveTarget(shell, flags);
    if (target.warning !== null) await report.message(target.warning);
    const options = connectOptions(shell, target);
    return new Link(shell, report, target, options, await connect(options));
  }

  /** The connection that is there, or was. */
  get client(): Client {
    return this.#client;
  }

  close(): void {
    this.#giveSignalsBack();
    this.#client.close();
  }

  /** Does `work`, and does it again while it fails in a way that allows that. */
  async again<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const { timers } = this.#shell;
    const sinceMs = timers.monotonicMs();
    for (let pauseMs: number = PAUSE_MS.first; ; pauseMs = Math.min(pauseMs * 2, PAUSE_MS.last)) {
      if (this.#isStopped) throw stopped();
      try {
        return await work(await this.#connected());
      } catch (error) {
        if (!(error instanceof LemonError) || !error.retrySafe) throw error;
        if (error.code === "no_space") throw error;
        if (timers.monotonicMs() - sinceMs >= PATIENCE_MS) throw error;
      }
      const pause = Promise.withResolvers<void>();
      const cancel = timers.after(pauseMs, pause.resolve);
      await Promise.race([pause.promise, this.#stop.promise]);
      cancel();
    }
  }

  #stopped(): void {
    this.#isStopped = true;
    this.#stop.resolve();
    this.#giveSignalsBack();
  }

  #giveSignalsBack(): void {
    for (const release of this.#release) release();
    this.#release = [];
  }

  /** One connection for all who wait for it. */
  #connected(): Promise<Client> {
    if (this.#client.connected) return Promise.resolve(this.#client);
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  async #connect(): Promise<Client> {
    const client = await connect(this.#options);
    await this.#report.message("the connection was cut; going on where it stood");
    this.#client = client;
    return client;
  }
}

function stopped(): LemonError {
  return new LemonError("aborted", {
    message:
      "Stopped; what is there of the file stays beside its place, and the same copy goes on from it",
    mutationMayHaveApplied: false,
  });
}
