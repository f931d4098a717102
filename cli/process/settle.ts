/**
 * Owns the settlement of an uncertain call by reading: connect again, ask for the receipt, until it
 * says how the matter ended or the time is up.
 *
 * 1. Nothing but `node.process.get` is ever sent from here.
 * 2. It ends: at the latest when the work itself must be over, earlier when no connection comes about
 *    for a while or when asking is refused.
 */
import { type Client, ConnectError, type ConnectOptions, connect } from "../../client/index.ts";
import type { Timers } from "../../client/timers.ts";
import { ERRORS, LemonError } from "../../protocol/errors.ts";
import type { Receipt } from "./receipt.ts";

/** Reconnects faster than a long-lived client would: somebody waits in front of it. */
const RECONNECT = { firstMs: 250, maxMs: 2_000, resetAfterMs: 5_000 } as const;

/** How long to go on without any connection, in ms. */
const UNREACHABLE_MS = 30_000;

/** Between two questions: from the first to the last pause, in ms. */
const PAUSE_MS = { first: 250, last: 5_000 } as const;

/**
 * How long an absence is doubted, in ms. What was sent on the lost connection may still be on its way
 * through the controller when the first question overtakes it.
 */
const ABSENCE_MS = 3_000;

export interface SettleOptions {
  readonly connect: ConnectOptions;
  readonly timers: Timers;
  readonly nodeId: string;
  readonly processId: string;
  /** Monotonic: when the work must be over, with some grace. */
  readonly untilMs: number;
  readonly isSettled: (receipt: Receipt) => boolean;
  /** Aborted when the user detaches. */
  readonly signal: AbortSignal;
  /** The connection that cancels can use meanwhile. */
  readonly onClient: (client: Client) => void;
}

/** The last receipt that was read, settled or not; null when none could be read. */
export async function settleByGet(options: SettleOptions): Promise<Receipt | null> {
  const { timers, untilMs, signal } = options;
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  const cancelDeadline = timers.after(Math.max(0, untilMs - timers.monotonicMs()), abort);
  const search = new Search(options, stop.signal);
  try {
    await search.run();
  } catch (error) {
    if (!(error instanceof LemonError)) throw error;
    // Time is up, the user detached, or asking is refused: what is known stays as it is.
  } finally {
    cancelDeadline();
    signal.removeEventListener("abort", abort);
    search.close();
  }
  return search.known;
}

class Search {
  known: Receipt | null = null;
  readonly #options: SettleOptions;
  readonly #signal: AbortSignal;
  #client: Client | null = null;
  #absentSinceMs: number | null = null;

  constructor(options: SettleOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
  }

  close(): void {
    this.#client?.close();
  }

  async run(): Promise<void> {
    const client = await this.#connected((signal) =>
      connect({ ...this.#options.connect, reconnect: RECONNECT, signal }),
    );
    this.#client = client;
    this.#options.onClient(client);
    for (let pauseMs: number = PAUSE_MS.first; ; pauseMs = Math.min(pauseMs * 2, PAUSE_MS.last)) {
      if (!client.connected) await this.#connected((signal) => client.ready(signal));
      if (await this.#ask(client)) return;
      await this.#pause(pauseMs);
    }
  }

  /** True when there is nothing more to ask. */
  async #ask(client: Client): Promise<boolean> {
    const { nodeId, processId, timers, isSettled } = this.#options;
    try {
      const params = { nodeId, processId };
      const receipt = await client.call("node.process.get", params, { signal: this.#signal });
      this.known = receipt;
      if (receipt.state !== "not_found") {
        this.#absentSinceMs = null;
        return isSettled(receipt);
      }
      this.#absentSinceMs ??= timers.monotonicMs();
      return timers.monotonicMs() - this.#absentSinceMs >= ABSENCE_MS;
    } catch (error) {
      if (!(error instanceof LemonError)) throw error;
      return isFinalRefusal(error);
    }
  }

  /** Waits for a connection, but not for ever. */
  async #connected<T>(attempt: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const patience = new AbortController();
    const cancel = this.#options.timers.after(UNREACHABLE_MS, () => patience.abort());
    try {
      return await attempt(AbortSignal.any([this.#signal, patience.signal]));
    } finally {
      cancel();
    }
  }

  #pause(ms: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const stopped = (): void =>
      reject(new ConnectError("aborted", "aborted", { message: "The settlement ended" }));
    if (this.#signal.aborted) stopped();
    const cancel = this.#options.timers.after(ms, resolve);
    this.#signal.addEventListener("abort", stopped, { once: true });
    return promise.finally(() => {
      cancel();
      this.#signal.removeEventListener("abort", stopped);
    });
  }
}

/** A node that is away may come back; these would only be repeated. */
function isFinalRefusal({ code, retrySafe }: LemonError): boolean {
  return code === "response_too_large" || (!retrySafe && ERRORS[code].outcome === "refused");
}
