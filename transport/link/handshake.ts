/**
 * Owns the proxy's side of one handshake with the hub: a connection of its own, a request of our own
 * making, and an answer that is bounded in size and time and must consent.
 */
import { connect, type Socket } from "node:net";
import type { Clock } from "../../host/clock.ts";
import { consents, type RefusalStatus, requestHead } from "./upgrade.ts";

/** The hub's consent is about 150 bytes. */
const LONGEST_HEAD_BYTES = 4_096;
const END_OF_HEAD = "\r\n\r\n";

export interface Consent {
  /** Paused; whoever gets it listens for its errors. */
  readonly hub: Socket;
  /** What the hub sent right behind its consent. */
  readonly first: Buffer;
}

export interface HandshakeOptions {
  readonly hubWebsocket: { readonly host: string; readonly port: number };
  readonly key: string;
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/** Resolves with the hub's consent, or with the status that says why there is none. Never rejects. */
export function askHub(options: HandshakeOptions): Promise<Consent | RefusalStatus> {
  const { hubWebsocket, key, clock, timeoutMs, signal } = options;
  const { host, port } = hubWebsocket;
  const hub = connect({ host, port, allowHalfOpen: true, noDelay: true });
  const { promise, resolve } = Promise.withResolvers<Consent | RefusalStatus>();
  let received = Buffer.alloc(0);

  const end = (outcome: Consent | RefusalStatus): void => {
    cancelTimeout();
    signal.removeEventListener("abort", abandon);
    hub.removeAllListeners();
    // Until the next owner listens, and for a socket that is destroyed here.
    hub.on("error", () => undefined);
    if (typeof outcome === "number") hub.destroy();
    else hub.pause();
    resolve(outcome);
  };
  const abandon = (): void => end(502);
  const cancelTimeout = clock.after(timeoutMs, () => end(504));
  signal.addEventListener("abort", abandon);
  hub.on("error", () => end(502));
  hub.on("end", () => end(502));
  hub.on("connect", () => hub.write(requestHead(`${host}:${port}`, key)));
  hub.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    const at = received.subarray(0, LONGEST_HEAD_BYTES).indexOf(END_OF_HEAD);
    if (at >= 0) {
      const consented = consents(received.toString("latin1", 0, at), key);
      end(consented ? { hub, first: received.subarray(at + END_OF_HEAD.length) } : 502);
    } else if (received.length >= LONGEST_HEAD_BYTES) {
      end(502);
    }
  });
  return promise;
}
