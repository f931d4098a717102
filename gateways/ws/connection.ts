/**
 * Owns one WebSocket: bytes in become request frames for its session, the session's texts become bytes.
 *
 * 1. What is no request frame is answered here, with id `unknown`, and the socket is kept.
 * 2. While too many answers wait, nothing is read; control frames we owe never pile up either.
 * 3. Every socket ends: it is pinged each `pingMs`, closed after `idleMs` without a byte from its peer,
 *    and cut `closeMs` after its closing began.
 *
 * Source: control-plane-wire.md 1.1, 1.5, 1.7; rulings ("Oversized frame", "A slow reader", "Liveness").
 */
import type { Socket } from "node:net";
import { type RawData, WebSocket } from "ws";
import type { Connection, ConnectionListener } from "../../actors/session/connection.ts";
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
import { SendQueue } from "./send-queue.ts";
import type { StrangerMeter } from "./strangers.ts";

export interface ConnectionTimes {
  readonly pingMs: number;
  readonly idleMs: number;
  /** How long a reader may take nothing though something waits for it. */
  readonly stallMs: number;
  /** From the beginning of a close to the cutting of the socket. */
  readonly closeMs: number;
}

/** What a connection shares with its siblings. */
export interface ConnectionSetting {
  readonly clock: Clock;
  readonly policy: Policy;
  readonly times: ConnectionTimes;
}

/** Close codes of RFC 6455 7.4.1 and the IANA registry. */
export const CLOSE = {
  goingAway: 1001,
  abnormal: 1006,
  policyViolation: 1008,
  tryAgainLater: 1013,
} as const satisfies Record<string, number>;

/** The reason of a close frame has room for 123 bytes. */
const REASON_MAX_BYTES = 123;

export class WsConnection implements Connection {
  readonly id: ConnectionId;
  readonly remoteAddress: string;
  readonly directLoopback: boolean;

  readonly #ws: WebSocket;
  readonly #socket: Socket;
  readonly #setting: ConnectionSetting;
  readonly #queue: SendQueue;
  #stranger: StrangerMeter | null;
  #listener: ConnectionListener | null = null;
  #state: "open" | "closing" | "closed" = "open";

  #closeCode: number = CLOSE.abnormal;
  #heardAtMs: number;
  #heardBytes = 0;
  #pingAtMs: number;
  #cancelTimer: CancelTimer | null = null;

  #pongInHand = false;
  #owedPong: Buffer | null = null;

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
    const { clock, policy, times } = setting;
    this.#queue = new SendQueue(
      ws,
      {
        maxEventBytes: policy.maxBufferedBytes,
        maxAnswerBytes: policy.maxPayload,
        stallMs: times.stallMs,
      },
      clock,
      {
        onPressure: (high) => this.#onPressure(high),
        onSlow: () => this.close(CLOSE.tryAgainLater, "slow consumer"),
      },
    );
    this.#heardAtMs = clock.monotonicMs();
    this.#pingAtMs = this.#heardAtMs + times.pingMs;

    ws.pause();
    ws.on("message", (data, isBinary) => this.#onMessage(data, isBinary));
    ws.on("ping", (data) => this.#onPing(data));
    ws.on("pong", () => this.#heard());
    ws.on("close", (code) => this.#onClosed(code));
    // `ws` has begun the close by itself (1002, 1007, 1009), or the socket is gone; `close` follows.
    ws.on("error", () => this.#beginClose());
    stranger.begin(socket, () => this.close(CLOSE.tryAgainLater, "too much is being received"));
    this.#schedule();
  }

  get waitingAnswers(): number {
    return this.#queue.waitingAnswers;
  }

  attach(listener: ConnectionListener): void {
    if (this.#state === "closed") {
      listener.onClosed(this.#closeCode);
      return;
    }
    this.#listener = listener;
    if (this.#state === "open") this.#ws.resume();
  }

  admit(): void {
    this.#stranger?.end();
    this.#stranger = null;
  }

  answer(text: string): void {
    this.#queue.push(text, "answer");
  }

  event(text: string): void {
    this.#queue.push(text, "event");
  }

  flushed(): Promise<void> {
    return this.#queue.flushed();
  }

  close(code: number, reason: string): void {
    if (this.#state !== "open") return;
    this.#beginClose();
    this.#ws.close(code, clipped(reason));
  }

  // --- inbound ------------------------------------------------------------------------------------

  #onMessage(data: RawData, isBinary: boolean): void {
    // `ws` goes on through the bytes it holds, whatever became of the socket meanwhile.
    if (this.#state !== "open") return;
    this.#heard();
    this.#stranger?.frameRead();
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

  #onPing(data: Buffer): void {
    if (this.#state !== "open") return;
    this.#heard();
    // A copy: the data is a view of the whole chunk that was read.
    if (this.#pongInHand) this.#owedPong = Buffer.from(data);
    else this.#pong(data);
  }

  /** One pong is under way at a time; of the pings that come meanwhile only the last is answered (RFC 6455 5.5.3). */
  #pong(data: Buffer): void {
    this.#pongInHand = true;
    this.#ws.pong(data, false, () => {
      this.#pongInHand = false;
      const owed = this.#owedPong;
      this.#owedPong = null;
      if (owed !== null && this.#state === "open") this.#pong(owed);
    });
  }

  #onPressure(high: boolean): void {
    if (this.#state !== "open") return;
    if (high) {
      this.#ws.pause();
    } else {
      // It was we who did not listen.
      this.#heard();
      this.#ws.resume();
    }
  }

  // --- liveness -----------------------------------------------------------------------------------

  #heard(): void {
    this.#heardAtMs = this.#setting.clock.monotonicMs();
    this.#heardBytes = this.#socket.bytesRead;
  }

  #schedule(): void {
    const { clock, times } = this.#setting;
    const nextMs = Math.min(this.#pingAtMs, this.#heardAtMs + times.idleMs);
    this.#cancelTimer = clock.after(nextMs - clock.monotonicMs(), () => this.#wake());
  }

  #wake(): void {
    if (this.#ws.readyState !== WebSocket.OPEN) {
      // The peer said goodbye and then kept the line.
      this.#ws.terminate();
      return;
    }
    // A large frame that comes in slowly is traffic too; and while we do not read, the silence is ours.
    if (this.#socket.bytesRead !== this.#heardBytes || this.#ws.isPaused) this.#heard();
    const { clock, times } = this.#setting;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#heardAtMs >= times.idleMs) {
      this.close(CLOSE.goingAway, "idle");
      return;
    }
    if (nowMs >= this.#pingAtMs) {
      this.#pingAtMs = nowMs + times.pingMs;
      this.#ws.ping();
    }
    this.#schedule();
  }

  // --- the end ------------------------------------------------------------------------------------

  #beginClose(): void {
    if (this.#state !== "open") return;
    this.#state = "closing";
    this.#cancelTimer?.();
    this.#queue.end();
    this.admit();
    // The peer's close frame has to be read to end in order.
    this.#ws.resume();
    const { clock, times } = this.#setting;
    this.#cancelTimer = clock.after(times.closeMs, () => this.#ws.terminate());
  }

  #onClosed(code: number): void {
    this.#beginClose();
    this.#state = "closed";
    this.#cancelTimer?.();
    this.#closeCode = code;
    const listener = this.#listener;
    this.#listener = null;
    listener?.onClosed(code);
  }
}

/** With `binaryType` "nodebuffer", which is the default, it is one already. */
function asBuffer(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}

function clipped(reason: string): string {
  if (Buffer.byteLength(reason) <= REASON_MAX_BYTES) return reason;
  return Buffer.from(reason)
    .subarray(0, REASON_MAX_BYTES)
    .toString()
    .replace(/\ufffd+$/, "");
}
