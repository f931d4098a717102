/**
 * Owns what the client asks of a WebSocket, and the one made of the platform's own (browsers, Node).
 * Whoever needs more (a CA file, a proxy, a test) hands in another `OpenSocket`.
 *
 * 1. `closed` is called exactly once, last, also when the socket never opened.
 * 2. Nothing here throws at the caller for what the peer or the network did.
 */

/** How a socket ended. */
export interface SocketClose {
  /** The peer's close code (RFC 6455 section 7.4); 1006 when there was no closing handshake. */
  readonly code: number;
  readonly reason: string;
  /** Why it could not be opened or broke, as a short code: `ECONNREFUSED`, `HTTP 404`, `CERT_HAS_EXPIRED`. */
  readonly failure: string | null;
}

export interface SocketEvents {
  opened(): void;
  /** One whole text frame. */
  text(data: string): void;
  /** A binary frame: nothing this protocol has. */
  binary(): void;
  closed(close: SocketClose): void;
}

export interface Socket {
  /** Queues one text frame. After the end it does nothing. */
  send(text: string): void;
  /** Starts the closing handshake. Idempotent. */
  close(code: number, reason: string): void;
  /** Ends it at once, without waiting for the peer. */
  drop(): void;
  /** Bytes that were given to `send` and have not left yet. */
  readonly bufferedBytes: number;
}

/** Begins to open a socket; the outcome comes through `events`, never before this returns. */
export type OpenSocket = (url: string, events: SocketEvents) => Socket;

/** Whether a program may close with this code: the others are its platform's to send (WHATWG WebSockets, `close`). */
export function isOursToSend(code: number): boolean {
  return code === 1000 || (Number.isInteger(code) && code >= 3000 && code <= 4999);
}

/** The reason of a close frame has room for so many bytes (RFC 6455 5.5). */
export const REASON_MAX_BYTES = 123;

/** The close code when a side gave up on a silent peer (control-plane-wire.md 1.7). */
export const LIVENESS_CLOSE_CODE = 4000;

/**
 * The platform's `WebSocket`. It tells nothing of why a connection failed, can not drop a socket
 * without the closing handshake, and takes no CA: the reasons for `OpenSocket`.
 */
export const openPlatformSocket: OpenSocket = (url, events) => {
  const socket = new WebSocket(url);
  let ended = false;
  const end = (close: SocketClose): void => {
    if (ended) return;
    ended = true;
    events.closed(close);
  };
  socket.addEventListener("open", () => ended || events.opened());
  socket.addEventListener("message", ({ data }: { readonly data: unknown }) => {
    if (ended) return;
    if (typeof data === "string") events.text(data);
    else events.binary();
  });
  socket.addEventListener("close", ({ code, reason }) => end({ code, reason, failure: null }));
  return {
    send(text) {
      if (!ended && socket.readyState === WebSocket.OPEN) socket.send(text);
    },
    close(code, reason) {
      if (ended) return;
      // It throws for any other, as for 1002.
      if (isOursToSend(code)) socket.close(code, reason);
      else socket.close();
    },
    drop() {
      if (ended) return;
      socket.close();
      // A silent peer never answers the closing handshake; whoever waits is told at once.
      queueMicrotask(() => end({ code: 1006, reason: "", failure: null }));
    },
    get bufferedBytes() {
      return socket.bufferedAmount;
    },
  };
};
