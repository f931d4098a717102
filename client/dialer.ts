/**
 * Owns the way to a connection: the attempts, what lies between them, and when another is of no use.
 */
import { Backoff, DEFAULT_BACKOFF } from "./backoff.ts";
import type { ConnectOptions } from "./client.ts";
import { Connection, type ConnectionOptions } from "./connection.ts";
import { ConnectError } from "./errors.ts";
import { openPlatformSocket } from "./socket.ts";
import { platformTimers, type Timers } from "./timers.ts";

const DEFAULT_HANDSHAKE_MS = 10_000;
const DEFAULT_MAX_IN_FLIGHT = 256;

/** Who hears of each connection and its events. */
type Listener = Pick<ConnectionOptions, "onOpened" | "onEvent">;

export class Dialer {
  readonly #options: ConnectOptions;
  readonly #timers: Timers;
  readonly #backoff: Backoff | null;
  /** Ends the attempts. */
  readonly #giveUp: AbortSignal;
  /** There was a connection. */
  #hasStood = false;

  constructor(options: ConnectOptions, giveUp: AbortSignal) {
    this.#options = options;
    this.#timers = options.timers ?? platformTimers;
    this.#giveUp = giveUp;
    const { reconnect = false, random = Math.random } = options;
    this.#backoff =
      reconnect === false
        ? null
        : new Backoff(reconnect === true ? DEFAULT_BACKOFF : reconnect, random);
  }

  /** Whether a connection that ended is followed by another. */
  get goesOn(): boolean {
    return this.#backoff !== null && !this.#giveUp.aborted;
  }

  /** A connection has ended, after so long. */
  lasted(ms: number): void {
    this.#hasStood = true;
    this.#backoff?.lasted(ms);
  }

  /** Makes one connection, by as many attempts as it takes. Rejects with a `ConnectError`, or, before there was any, with what the function that gives the token throws. */
  async dial(listener: Listener): Promise<Connection> {
    for (;;) {
      try {
        return await this.#attempt(listener);
      } catch (error) {
        if (this.#backoff === null || !(error instanceof ConnectError) || isFinal(error))
          throw error;
        await this.pause();
      }
    }
  }

  async #attempt(listener: Listener): Promise<Connection> {
    const { url, token = null, clientId, role, scopes, handshakeMs, maxInFlight } = this.#options;
    const greeting = {
      token: typeof token === "function" ? await this.#ask(token) : token,
      clientId,
      ...(role === undefined ? {} : { role }),
      ...(scopes === undefined ? {} : { scopes }),
    };
    return Connection.open({
      url,
      greeting,
      openSocket: this.#options.openSocket ?? openPlatformSocket,
      timers: this.#timers,
      handshakeMs: handshakeMs ?? DEFAULT_HANDSHAKE_MS,
      maxInFlight: maxInFlight ?? DEFAULT_MAX_IN_FLIGHT,
      signal: this.#giveUp,
      ...listener,
    });
  }

  /** What keeps us from the controller may keep its user from a new token: that is no reason to end what has stood. */
  async #ask(token: () => string | null | Promise<string | null>): Promise<string | null> {
    try {
      return await token();
    } catch (cause) {
      if (!this.#hasStood) throw cause;
      throw new ConnectError("unavailable", "unreachable", {
        message: "There is no token for the next connection yet",
        cause,
      });
    }
  }

  /** Waits for the next delay of the back-off. */
  pause(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const stop = (): void => reject(stoppedWaiting(this.#giveUp.reason));
    if (this.#giveUp.aborted) stop();
    const cancel = this.#timers.after(this.#backoff?.next() ?? 0, resolve);
    this.#giveUp.addEventListener("abort", stop, { once: true });
    return promise.finally(() => {
      cancel();
      this.#giveUp.removeEventListener("abort", stop);
    });
  }
}

/** Refusals that the same token and the same peer would only repeat. */
function isFinal(error: ConnectError): boolean {
  if (error.reason === "aborted") return true;
  return error.reason === "refused" && !error.retrySafe;
}

export function stoppedWaiting(cause: unknown): ConnectError {
  return new ConnectError("aborted", "aborted", {
    message: "The caller stopped waiting for the connection",
    cause,
  });
}
