/**
 * Owns one WebSocket: bytes in become request frames for its session, the session's texts become bytes.
 *
 * 1. What is no request frame is answered here, with id `unknown`, and the socket is kept.
 * 2. While too many answers wait, nothing is handled or read: what came before the pause is held, in order.
 * 3. The connection ends once, from whichever side; its socket is cut at the latest `closeMs` after that.
 *
 * Source: control-plane-wire.md 1.1, 1.5, 1.7; rulings ("Oversized frame", "A slow reader", "Liveness").
 */
import type { Socket } from "node:net";
import { type RawData, WebSocket } from "ws";
import type { LongText } from "../../actors/session/answer-text.ts";
import type { Attention, Connection, ConnectionListener } from "../../actors/session/connection.ts";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import type { LemonError } from "../../protocol/errors.ts";
import {
  binaryFrameRefusal,
  errorText,
  oversizedFrameRefusal,
  type Policy,
  parseRequestFrame,
  UNKNOWN_FRAME_ID,
} from "../../protocol/frames.ts";
import type { ConnectionId } from "../../protocol/ids.ts";
import type { Peer } from "../http/peer.ts";
import type { Backlog } from "./backlog.ts";
import { Liveness, type LivenessTimes, type Watched } from "./liveness.ts";
import { WsOutlet } from "./outlet.ts";
import { SendQueue } from "./send-queue.ts";
import type { StrangerMeter } from "./strangers.ts";

export interface ConnectionTimes extends LivenessTimes {
  /** How long a reader may take nothing though something waits for it. */
  readonly stallMs: number;
  /** From the connection's end to the cutting of its socket. */
  readonly closeMs: number;
}

/** What all connections of a gateway share. */
export interface ConnectionSetting {
  readonly clock: Clock;
  readonly policy: Policy;
  readonly times: ConnectionTimes;
  readonly backlog: Backlog;
  /** A reader was too slow, and is cut. */
  readonly onSlow: () => void;
}

/** Close codes of RFC 6455 7.4.1 and the IANA registry. */
const GOING_AWAY = 1001;
const TRY_AGAIN_LATER = 1013;

/** The reason of a close frame has room for 123 bytes. */
const REASON_MAX_BYTES = 123;

export class WsConnection implements Connection, Watched {
  readonly id: ConnectionId;
  readonly remoteAddress: string;
  readonly directLoopback: boolean;

  readonly #ws: WebSocket;
  /** The one below it. */
  readonly #socket: Socket;
  readonly #setting: ConnectionSetting;
  readonly #queue: SendQueue;
  readonly #liveness: Liveness;
  #stranger: StrangerMeter | null;
  #listener: ConnectionListener | null = null;
  #state: "open" | "closing" | "closed" = "open";
  #cancelCut: CancelTimer = () => {};
  /** While set, messages are held instead of handled: `ws` goes on through the bytes it has read. */
  #pressed = false;
  #held: { readonly data: RawData; readonly isBinary: boolean }[] = [];

  constructor(
    id: ConnectionId,
    peer: Peer,
    ws: WebSocket,
    socket: Socket,
    stranger: StrangerMeter,
    setting: ConnectionSetting,
  ) {
    this.id = id;
    this.remoteAddress = peer.remoteAddress;
    this.directLoopback = peer.directLoopback;
    this.#ws = ws;
    this.#socket = socket;
    this.#stranger = stranger;
    this.#setting = setting;
    const { backlog, clock, policy, times } = setting;
    const bounds = {
      maxEventBytes: policy.maxBufferedBytes,
      maxAnswerBytes: policy.maxPayload,
      stallMs: times.stallMs,
    };
    this.#queue = new SendQueue(new WsOutlet(ws, socket), bounds, backlog, clock, {
      onPressure: (high) => this.#onPressure(high),
      onAnswersSent: () => this.#listener?.onAnswersSent(),
      onSlow: () => {
        setting.onSlow();
        void this.close(TRY_AGAIN_LATER, "slow consumer");
      },
    });
    this.#liveness = new Liveness(this, times, clock, () => void this.close(GOING_AWAY, "idle"));

    ws.pause();
    ws.on("message", (data, isBinary) => this.#onMessage(data, isBinary));
    ws.on("ping", (data) => {
      if (this.#state === "open") this.#liveness.pinged(data);
    });
    ws.on("pong", () => this.#liveness.heard());
    ws.on("close", () => this.#onClosed());
    // `ws` has begun the close by itself (1002, 1007, 1009), or the socket is gone; `close` follows.
    ws.on("error", () => this.#end());
    stranger.begin(socket, () => this.#cutStranger());
  }

  // --- for its session ----------------------------------------------------------------------------

  attach(listener: ConnectionListener): void {
    if (this.#state !== "open") {
      listener.onEnd();
      return;
    }
    this.#listener = listener;
    this.#ws.resume();
  }

  admit(): void {
    this.#stranger?.end();
    this.#stranger = null;
  }

  get unsentAnswerBytes(): number {
    return this.#queue.answerBytes;
  }

  answer(text: string | LongText): void {
    this.#queue.push(text, "answer");
  }

  event(text: string): void {
    this.#queue.push(text, "event");
  }

  flushed(): Promise<void> {
    return this.#queue.flushed();
  }

  attend(attention: Attention): () => number {
    this.#liveness.attend(attention);
    return () => this.#liveness.silentForMs;
  }

  close(code: number, reason: string): Promise<void> {
    if (this.#state === "open") {
      this.#end();
      this.#ws.close(code, clipped(reason));
    }
    if (this.#state === "closed") return Promise.resolve();
    return new Promise((resolve) => this.#ws.once("close", () => resolve()));
  }

  // --- for its liveness ---------------------------------------------------------------------------

  get bytesRead(): number {
    return this.#socket.bytesRead;
  }

  get paused(): boolean {
    return this.#ws.isPaused;
  }

  ping(): void {
    // The peer said goodbye and then kept the line.
    if (this.#ws.readyState !== WebSocket.OPEN) this.#ws.terminate();
    else this.#ws.ping();
  }

  pong(data: Buffer, sent: () => void): void {
    this.#ws.pong(data, false, sent);
  }

  // --- inbound ------------------------------------------------------------------------------------

  #onMessage(data: RawData, isBinary: boolean): void {
    if (this.#state !== "open") return;
    this.#liveness.heard();
    this.#stranger?.frameRead();
    if (this.#pressed) this.#held.push({ data, isBinary });
    else this.#handle(data, isBinary);
  }

  #handle(data: RawData, isBinary: boolean): void {
    const bytes = asBuffer(data);
    if (isBinary) {
      this.#refuse(binaryFrameRefusal());
    } else if (bytes.length > this.#setting.policy.maxPayload) {
      this.#refuse(oversizedFrameRefusal());
    } else {
      const parsed = parseRequestFrame(bytes.toString("utf8"));
      if (parsed.ok) this.#listener?.onRequest(parsed.frame);
      else this.#refuse(parsed.error);
    }
  }

  #refuse(error: LemonError): void {
    this.answer(errorText(UNKNOWN_FRAME_ID, error, false));
  }

  #onPressure(high: boolean): void {
    this.#pressed = high;
    if (high) this.#ws.pause();
    else this.#goOn();
  }

  /** Handles what was held, which may raise the pressure again; then reads on. */
  #goOn(): void {
    let handled = 0;
    for (const { data, isBinary } of this.#held) {
      if (this.#pressed || this.#state !== "open") break;
      handled += 1;
      this.#handle(data, isBinary);
    }
    this.#held.splice(0, handled);
    if (this.#pressed || this.#state !== "open") return;
    // It was we who did not listen.
    this.#liveness.heard();
    this.#ws.resume();
  }

  // --- the end ------------------------------------------------------------------------------------

  /** The connection's end; what follows is only the socket's. */
  #end(): void {
    if (this.#state !== "open") return;
    this.#state = "closing";
    this.#liveness.stop();
    this.#queue.end();
    this.#held = [];
    // The peer's close frame has to be read for an end in order.
    this.#ws.resume();
    const { clock, times } = this.#setting;
    this.#cancelCut = clock.after(times.closeMs, () => this.#ws.terminate());
    const listener = this.#listener;
    this.#listener = null;
    listener?.onEnd();
  }

  /** It is told if the system takes the close frame at once, and let go of in the same moment with all it sent. */
  #cutStranger(): void {
    void this.close(TRY_AGAIN_LATER, "too much is being received");
    this.#ws.terminate();
  }

  #onClosed(): void {
    this.#end();
    this.admit();
    this.#state = "closed";
    this.#cancelCut();
  }
}

/** With `binaryType` "nodebuffer", which is the default, it is one already. */
function asBuffer(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}

/** As much of a reason as fits, in whole characters. */
function clipped(reason: string): string {
  if (Buffer.byteLength(reason) <= REASON_MAX_BYTES) return reason;
  return Buffer.from(reason)
    .subarray(0, REASON_MAX_BYTES)
    .toString()
    .replace(/\ufffd+$/, "");
}
