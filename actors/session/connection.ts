/**
 * Owns the words between a session and its socket. The gateway reads bytes into frames and writes texts
 * as bytes; the session says what they mean.
 */
import type { RequestFrame } from "../../protocol/frames.ts";
import type { ConnectionId } from "../../protocol/ids.ts";
import type { LongText } from "./answer-text.ts";

/** One open socket, as its session uses it. Nothing is read from it before `attach`. */
export interface Connection {
  readonly id: ConnectionId;
  readonly remoteAddress: string;
  /** See `Credentials`. */
  readonly directLoopback: boolean;
  /** Begins to read. Called once. */
  attach(listener: ConnectionListener): void;
  /** The session knows its peer now: the bounds for strangers end. */
  admit(): void;
  /** Bytes of answers that wait for the reader. */
  readonly unsentAnswerBytes: number;
  /** Sends one text frame, after all that was sent before it; it waits for a reader that is behind. */
  answer(text: string | LongText): void;
  /** The same, but a reader too far behind is cut instead of waited for. */
  event(text: string): void;
  /**
   * Asks the peer from now on whether it is there, until the connection ends; called at most once. What it
   * returns tells for how long nothing was heard, in ms. While we do not read, the silence is ours.
   */
  attend(attention: Attention): () => number;
  /** Resolves when nothing waits any more, or the socket is gone. Never rejects. */
  flushed(): Promise<void>;
  /**
   * Ends the connection: nothing more is read, what still waits is dropped, the listener is told. Resolves
   * when the socket is gone too. Never rejects.
   */
  close(code: number, reason: string): Promise<void>;
}

/** How closely a peer is watched. */
export interface Attention {
  readonly pingMs: number;
  /** Without a byte for this long it does not answer. */
  readonly silentMs: number;
  /** It fell silent (false), or is heard again. */
  readonly onAnswering: (answering: boolean) => void;
}

/** What a socket tells its session; each call returns at once and never throws. */
export interface ConnectionListener {
  onRequest(frame: RequestFrame): void;
  /** Answers that waited for the reader have left. */
  onAnswersSent(): void;
  /** The connection has ended, from whichever side; its socket may take a moment to go. Told once, last. */
  onEnd(): void;
}
