/**
 * Owns how the controller's line is shared among the nodes that send to it. Knows nothing of sockets.
 *
 * 1. A node that is in use alone is held for nothing but a flood of messages, however much it sends, while
 *    the event loop keeps up.
 * 2. While others are in use too, and while the loop lags under what is sent, each node is held to its
 *    share, which counts what the hub's work is worth: so many bytes a message, beside its own.
 * 3. Each node is measured by itself: what one sends is never held against another.
 * 4. No timer runs unless a node sends more than a share, or is held.
 */
import type { CancelTimer, Clock } from "../../host/clock.ts";

/** Short, so that what is held goes on in small portions: a portion's work is what others wait for. */
const WINDOW_MS = 20;
/**
 * What a message costs beside its bytes. Measured: the hub works 10 µs on a small message that it takes
 * from one account into another; in that time it moves about a kilobyte of a large one.
 */
const MESSAGE_BYTES = 1_000;
/** A node's share while others are in use: 8 MB/s of large messages, or 7,000 small ones. */
const SHARE_BYTES_PER_S = 8_000_000;
/** What all that are in use have together, when they are so many that it is less than a share each. */
const LINE_BYTES_PER_S = 32_000_000;
const SMALLEST_SHARE_BYTES_PER_S = 500_000;
/**
 * What a node may send alone: as many as it could be called for, answers and all. Beyond that they pile
 * up before the hub and between the hub and us, where others' messages queue behind them.
 */
const MESSAGES_PER_S = 30_000;
const MESSAGES = (MESSAGES_PER_S * WINDOW_MS) / 1_000;
/** How long a node counts as in use. Short: a call now and then does not hold up a transfer for long. */
const IN_USE_MS = 100;
/** Less than this at once is a PING or a PONG, not a call or an answer. */
const NOTICED_BYTES = 64;
/**
 * A loop that works this much longer than a window before it comes to its timers, twice in a row, lags
 * under what the nodes send. Measured in processor time of its own: a machine that has no processor to
 * spare for it is not the nodes' doing, and a transfer in large pieces never keeps it that long.
 */
const LAG_MS = 15;
const LAGS_IN_A_ROW = 2;
/** How long a lag holds those who send much; doubled when the next one follows at once. */
const FIRST_PENALTY_MS = 500;
const LONGEST_PENALTY_MS = 4_000;

/** What a ration asks of the one whose bytes it counts. */
export interface Holdable {
  /** Send nothing more until `release`. */
  hold(): void;
  release(): void;
}

export interface Share {
  /** The node has sent this much, in which so many messages began. May call `hold`. */
  took(bytes: number, messages: number): void;
  /** The node was sent this much: it is in use, and others make room for its answer. */
  gave(bytes: number): void;
  /** Is gone; nothing is called any more. */
  leave(): void;
}

export interface Ration {
  join(holdable: Holdable): Share;
}

export interface RationOptions {
  readonly clock: Clock;
  /** Processor time that this thread has used so far, in ms. */
  readonly loopCpuMs?: () => number;
}

export function createRation({ clock, loopCpuMs = threadCpuMs }: RationOptions): Ration {
  return new FairRation(clock, loopCpuMs);
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

interface Member {
  readonly holdable: Holdable;
  /** What was sent in this window, in bytes and what counts as such, and what is owed from earlier ones. */
  used: number;
  /** The same in messages alone. */
  messages: number;
  held: boolean;
  inUseUntilMs: number;
}

class FairRation implements Ration {
  readonly #clock: Clock;
  readonly #loopCpuMs: () => number;
  readonly #members = new Set<Member>();
  #windowEndMs = Number.NEGATIVE_INFINITY;
  /** Members in use, as of the last look. */
  #inUse = 0;
  #cancelTick: CancelTimer | null = null;
  #lagsInARow = 0;
  #penaltyMs = FIRST_PENALTY_MS;
  #penaltyUntilMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, loopCpuMs: () => number) {
    this.#clock = clock;
    this.#loopCpuMs = loopCpuMs;
  }

  join(holdable: Holdable): Share {
    const member: Member = {
      holdable,
      used: 0,
      messages: 0,
      held: false,
      inUseUntilMs: Number.NEGATIVE_INFINITY,
    };
    this.#members.add(member);
    return {
      took: (bytes, messages) => this.#took(member, bytes, messages),
      gave: (bytes) => {
        if (bytes >= NOTICED_BYTES) this.#noteUse(member, this.#clock.monotonicMs());
      },
      leave: () => this.#leave(member),
    };
  }

  #took(member: Member, bytes: number, messages: number): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs >= this.#windowEndMs) this.#turn(nowMs);
    const cost = bytes + messages * MESSAGE_BYTES;
    member.used += cost;
    member.messages += messages;
    if (bytes >= NOTICED_BYTES) this.#noteUse(member, nowMs);
    if (!member.held && this.#isSpent(member, nowMs)) {
      // What it sent while it was free is not owed.
      member.used = Math.min(member.used, this.#share() + cost);
      member.held = true;
      member.holdable.hold();
    }
    if (member.held || member.used >= this.#share()) this.#armTick(nowMs);
  }

  #noteUse(member: Member, nowMs: number): void {
    if (member.inUseUntilMs <= nowMs) this.#inUse += 1;
    member.inUseUntilMs = nowMs + IN_USE_MS;
  }

  #leave(member: Member): void {
    this.#members.delete(member);
    if (member.inUseUntilMs > this.#clock.monotonicMs()) this.#inUse -= 1;
  }

  /** One node's part of one window. */
  #share(): number {
    const fair = LINE_BYTES_PER_S / Math.max(1, this.#inUse);
    const perSecond = Math.max(SMALLEST_SHARE_BYTES_PER_S, Math.min(SHARE_BYTES_PER_S, fair));
    return (perSecond * WINDOW_MS) / 1_000;
  }

  /** Whether it has had what it may have of this window. */
  #isSpent(member: Member, nowMs: number): boolean {
    if (member.messages >= MESSAGES) return true;
    const others = this.#inUse - (member.inUseUntilMs > nowMs ? 1 : 0);
    return (others > 0 || nowMs < this.#penaltyUntilMs) && member.used >= this.#share();
  }

  /** Begins a new window: what was held may have its next portion. */
  #turn(nowMs: number): void {
    const windows = Math.max(1, Math.floor((nowMs - this.#windowEndMs) / WINDOW_MS) + 1);
    this.#windowEndMs = nowMs + WINDOW_MS;
    const share = this.#share();
    this.#inUse = 0;
    for (const { inUseUntilMs } of this.#members) if (inUseUntilMs > nowMs) this.#inUse += 1;
    for (const member of this.#members) {
      member.used = member.held ? Math.max(0, member.used - windows * share) : 0;
      member.messages = member.held ? Math.max(0, member.messages - windows * MESSAGES) : 0;
      if (!member.held || this.#isSpent(member, nowMs)) continue;
      member.held = false;
      member.holdable.release();
    }
  }

  #armTick(nowMs: number): void {
    if (this.#cancelTick !== null) return;
    const dueMs = Math.max(nowMs, this.#windowEndMs);
    const cpuMs = this.#loopCpuMs();
    this.#cancelTick = this.#clock.after(dueMs - nowMs, () => {
      this.#cancelTick = null;
      const firedMs = this.#clock.monotonicMs();
      this.#noteLag(this.#loopCpuMs() - cpuMs > WINDOW_MS + LAG_MS, firedMs);
      this.#turn(firedMs);
      if ([...this.#members].some(({ held }) => held)) this.#armTick(firedMs);
    });
  }

  /** Measured only while somebody sends more than a share: else it is not the nodes' doing. */
  #noteLag(lags: boolean, nowMs: number): void {
    this.#lagsInARow = lags ? this.#lagsInARow + 1 : 0;
    if (this.#lagsInARow < LAGS_IN_A_ROW) return;
    const calmMs = nowMs - this.#penaltyUntilMs;
    this.#penaltyMs =
      calmMs < this.#penaltyMs
        ? Math.min(2 * this.#penaltyMs, LONGEST_PENALTY_MS)
        : FIRST_PENALTY_MS;
    this.#penaltyUntilMs = nowMs + this.#penaltyMs;
  }
}
