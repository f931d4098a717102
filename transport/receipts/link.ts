/**
 * Owns what the store knows of its connection: whether it stands, to which server, and the moment at
 * which either changes. The client library fails nothing when a connection is cut; this does.
 */
import type { NatsConnection } from "@nats-io/transport-node";

export class Link {
  readonly #connection: NatsConnection;
  readonly #changed: () => void;
  #up = true;
  #closed = false;
  #cut = new AbortController();

  /** `changed` is called after each cut and each return of the connection. */
  constructor(connection: NatsConnection, changed: () => void) {
    this.#connection = connection;
    this.#changed = changed;
    void this.#follow();
  }

  /** The server that answers now; null while there is none. */
  get serverId(): string | null {
    return this.#up ? (this.#connection.info?.server_id ?? null) : null;
  }

  /** Whether another server of a cluster could still hold what this one was sent. */
  get clustered(): boolean {
    return this.#connection.info?.cluster !== undefined;
  }

  /** Aborted when the connection that stands now is cut. */
  get cut(): AbortSignal {
    return this.#cut.signal;
  }

  /** Stops listening; the connection is its owner's. */
  close(): void {
    this.#closed = true;
    this.#cut.abort();
  }

  async #follow(): Promise<void> {
    for await (const status of this.#connection.status()) {
      if (this.#closed) return;
      if (status.type === "disconnect" || status.type === "close") this.#down();
      if (status.type === "reconnect") this.#return();
    }
    this.#down();
  }

  #down(): void {
    if (!this.#up || this.#closed) return;
    this.#up = false;
    this.#cut.abort();
    this.#changed();
  }

  #return(): void {
    this.#up = true;
    this.#cut = new AbortController();
    this.#changed();
  }
}

/** The answer, or `otherwise` as soon as the signal is aborted; what the answer becomes then is nobody's. */
export async function untilAborted<T, const U>(
  answer: Promise<T>,
  signal: AbortSignal,
  otherwise: U,
): Promise<T | U> {
  const { promise, resolve } = Promise.withResolvers<U>();
  const onAbort = (): void => resolve(otherwise);
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([answer, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    answer.catch(() => {});
  }
}
