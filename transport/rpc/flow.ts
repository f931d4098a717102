/**
 * Owns how much may be under way on the links at once, and who goes next. Knows nothing of NATS.
 *
 * 1. Bytes under way never exceed `totalBytes`, nor `nodeBytes` towards one node. The hub's
 *    `max_pending` is 256 MB a connection: beyond it NATS drops the connection, and every call on it.
 * 2. What waits is bounded too: in calls for one caller, in calls and in bytes for one node and for all.
 * 3. Callers take turns, whatever each of them has waiting; the calls of one caller to one node start
 *    in the order they came.
 * 4. Nothing starves: a call whose turn it is and that fits its node, but not the total, is waited for.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { NodeKey } from "../../protocol/ids.ts";

export interface FlowLimits {
  readonly totalBytes: number;
  readonly nodeBytes: number;
  readonly waitingCalls: number;
  readonly waitingBytes: number;
  readonly waitingCallsPerCaller: number;
  /** So that one node that stands still can not use up the waiting room of all, by calls or by bytes. */
  readonly waitingCallsPerNode: number;
  readonly waitingBytesPerNode: number;
}

export const DEFAULT_FLOW_LIMITS: FlowLimits = {
  totalBytes: 96 * 1024 * 1024,
  nodeBytes: 32 * 1024 * 1024,
  waitingCalls: 4_096,
  waitingBytes: 64 * 1024 * 1024,
  waitingCallsPerCaller: 512,
  waitingCallsPerNode: 1_024,
  waitingBytesPerNode: 24 * 1024 * 1024,
};

/** One call on its way through. */
export interface Passage {
  readonly node: NodeKey;
  readonly caller: string;
  /** What it may put on the link: its request and the answer it is prepared for. */
  readonly bytes: number;
  /** What of it is in memory while it waits. */
  readonly waitingBytes: number;
  /** Called once, when it may go; never after `leave`. */
  start(): void;
}

type Lane = Passage[];

export class FlowControl {
  readonly #limits: FlowLimits;
  /** The round of callers; whoever was served goes to its end. So do the nodes of one caller. */
  readonly #round = new Map<string, Map<NodeKey, Lane>>();
  readonly #waitingOf = new Map<string, number>();
  readonly #waitingFor = new Map<NodeKey, number>();
  readonly #waitingBytesFor = new Map<NodeKey, number>();
  readonly #flying = new Map<Passage, number>();
  readonly #flyingTo = new Map<NodeKey, number>();
  readonly #held = new Set<NodeKey>();
  #flyingBytes = 0;
  #waitingCalls = 0;
  #waitingBytes = 0;

  constructor(limits: FlowLimits) {
    this.#limits = limits;
  }

  /** Starts it now or when its turn comes. Throws `rate_limited` (the caller's own queue is full) or `unavailable`. */
  enter(passage: Passage): void {
    if (this.#waitingCalls === 0 && this.#fits(passage) && !this.#held.has(passage.node)) {
      this.#start(passage);
      return;
    }
    let lanes = this.#round.get(passage.caller);
    if (lanes === undefined) {
      lanes = new Map();
      this.#round.set(passage.caller, lanes);
    }
    const lane = lanes.get(passage.node);
    if (lane === undefined) lanes.set(passage.node, [passage]);
    else lane.push(passage);
    this.#count(passage, 1);
    this.#pump();
    // Only what really has to wait is held against the bounds of waiting.
    if (!this.#waits(passage)) return;
    const refusal = this.#overfull(passage);
    if (refusal === null) return;
    this.leave(passage);
    throw refusal;
  }

  /** Ends its passage, started or still waiting; ending it twice does nothing. */
  leave(passage: Passage): void {
    const bytes = this.#flying.get(passage);
    if (bytes !== undefined) {
      this.#flying.delete(passage);
      this.#flyingBytes -= bytes;
      add(this.#flyingTo, passage.node, -bytes);
    } else {
      const lanes = this.#round.get(passage.caller);
      const lane = lanes?.get(passage.node);
      const at = lane?.indexOf(passage) ?? -1;
      if (lanes === undefined || lane === undefined || at === -1) return;
      lane.splice(at, 1);
      if (lane.length === 0) lanes.delete(passage.node);
      if (lanes.size === 0) this.#round.delete(passage.caller);
      this.#count(passage, -1);
    }
    this.#pump();
  }

  /** Starts nothing towards this node until `release`. */
  hold(node: NodeKey): void {
    this.#held.add(node);
  }

  release(node: NodeKey): void {
    if (this.#held.delete(node)) this.#pump();
  }

  get flyingBytes(): number {
    return this.#flyingBytes;
  }

  get waiting(): number {
    return this.#waitingCalls;
  }

  #pump(): void {
    if (this.#waitingCalls === 0) return;
    const full = new Set<NodeKey>(this.#held);
    while (this.#waitingCalls > 0) {
      const next = this.#next(full);
      if (next === null) return;
      this.#start(next);
    }
  }

  /** Takes the passage whose turn it is out of its lane. `full` gathers the nodes without room. */
  #next(full: Set<NodeKey>): Passage | null {
    for (const [caller, lanes] of this.#round) {
      for (const [node, lane] of lanes) {
        const head = lane[0];
        if (head === undefined || full.has(node)) continue;
        if (!this.#fitsNode(head)) {
          full.add(node);
          continue;
        }
        if (!this.#fitsTotal(head)) return null;
        lane.shift();
        this.#count(head, -1);
        lanes.delete(node);
        if (lane.length > 0) lanes.set(node, lane);
        this.#round.delete(caller);
        if (lanes.size > 0) this.#round.set(caller, lanes);
        return head;
      }
    }
    return null;
  }

  #start(passage: Passage): void {
    const bytes = passage.bytes;
    this.#flying.set(passage, bytes);
    this.#flyingBytes += bytes;
    add(this.#flyingTo, passage.node, bytes);
    passage.start();
  }

  #fits(passage: Passage): boolean {
    return this.#fitsNode(passage) && this.#fitsTotal(passage);
  }

  /** What is larger than a bound by itself goes alone. */
  #fitsNode(passage: Passage): boolean {
    const flying = this.#flyingTo.get(passage.node) ?? 0;
    return flying === 0 || flying + passage.bytes <= this.#limits.nodeBytes;
  }

  #fitsTotal(passage: Passage): boolean {
    const flying = this.#flyingBytes;
    return flying === 0 || flying + passage.bytes <= this.#limits.totalBytes;
  }

  #waits(passage: Passage): boolean {
    return this.#round.get(passage.caller)?.get(passage.node)?.includes(passage) ?? false;
  }

  #overfull(passage: Passage): LemonError | null {
    const limits = this.#limits;
    if ((this.#waitingOf.get(passage.caller) ?? 0) > limits.waitingCallsPerCaller) {
      return new LemonError("rate_limited");
    }
    const full =
      this.#waitingCalls > limits.waitingCalls ||
      this.#waitingBytes > limits.waitingBytes ||
      (this.#waitingFor.get(passage.node) ?? 0) > limits.waitingCallsPerNode ||
      (this.#waitingBytesFor.get(passage.node) ?? 0) > limits.waitingBytesPerNode;
    return full
      ? new LemonError("unavailable", { message: "Too many calls wait; nothing was sent" })
      : null;
  }

  #count(passage: Passage, by: 1 | -1): void {
    this.#waitingCalls += by;
    this.#waitingBytes += by * passage.waitingBytes;
    add(this.#waitingOf, passage.caller, by);
    add(this.#waitingFor, passage.node, by);
    add(this.#waitingBytesFor, passage.node, by * passage.waitingBytes);
  }
}

/** Counts, and forgets what came back to nothing. */
function add<Key>(counts: Map<Key, number>, key: Key, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count > 0) counts.set(key, count);
  else counts.delete(key);
}
