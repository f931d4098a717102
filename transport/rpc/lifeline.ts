/**
 * Owns requests that do not outlive the connection they were sent on. The NATS client lets a request
 * wait out its timeout when the line is cut under it, and keeps one that is made while it is cut for
 * later; here both fail at once.
 */
import type { Msg, NatsConnection } from "@nats-io/transport-node";
import { LemonError } from "../../protocol/errors.ts";

export interface Lifeline {
  /** Rejects with `unavailable`: no answer in time, nobody there, or the connection is cut. */
  request(subject: string, payload: string | Uint8Array, timeoutMs: number): Promise<Msg>;
}

export function lifeline(connection: NatsConnection): Lifeline {
  const pending = new Set<(failure: LemonError) => void>();
  let connected = true;
  const cut = (): void => {
    connected = false;
    for (const reject of [...pending]) reject(new LemonError("unavailable"));
  };
  void (async () => {
    for await (const { type } of connection.status()) {
      if (type === "disconnect") cut();
      else if (type === "reconnect") connected = true;
    }
    cut();
  })();
  return {
    async request(subject, payload, timeoutMs) {
      if (!connected || connection.isClosed()) throw new LemonError("unavailable");
      const { promise, resolve, reject } = Promise.withResolvers<Msg>();
      pending.add(reject);
      connection
        .request(subject, payload, { timeout: timeoutMs })
        .then(resolve, (cause: unknown) => reject(new LemonError("unavailable", { cause })));
      try {
        return await promise;
      } finally {
        pending.delete(reject);
      }
    },
  };
}
