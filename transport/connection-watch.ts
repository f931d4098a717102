/**
 * Owns whether a NATS connection is up. The client itself keeps what it is given while it is down, sends
 * it later without an answer, and lets whatever was under way run into its timeout.
 *
 * 1. Nothing is handed to a connection that is down: it is refused at once, as not sent.
 * 2. What is under way when it goes down ends at once, as lost.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import { LemonError } from "../protocol/errors.ts";

export class ConnectionWatch {
  readonly #connection: NatsConnection;
  #isUp = true;
  readonly #underWay = new Set<(lost: LemonError) => void>();

  /** Follows a connection that is up now. */
  constructor(connection: NatsConnection) {
    this.#connection = connection;
    void this.#follow();
  }

  /** Errors, beside those of `work`: `unavailable` (not sent), `link_lost` (uncertain). */
  async over<T>(work: () => Promise<T>): Promise<T> {
    if (!this.#isUp || this.#connection.isClosed()) throw new LemonError("unavailable");
    return await new Promise<T>((resolve, reject) => {
      this.#underWay.add(reject);
      work()
        .then(resolve, reject)
        .finally(() => this.#underWay.delete(reject));
    });
  }

  async #follow(): Promise<void> {
    for await (const { type } of this.#connection.status()) {
      if (type === "reconnect") this.#isUp = true;
      else if (type === "disconnect") this.#down();
    }
    this.#down();
  }

  #down(): void {
    this.#isUp = false;
    for (const reject of [...this.#underWay]) reject(new LemonError("link_lost"));
    this.#underWay.clear();
  }
}
