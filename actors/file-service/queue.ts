/**
 * Owns who is served next by the one helper. Knows nothing of files.
 *
 * 1. Callers take turns, whatever each of them has waiting; the requests of one caller start in the order
 *    they came.
 * 2. A short request goes before the long ones of other callers: somebody looks at a file while others copy.
 *    So many in a row, and the long one whose turn it is goes: nobody starves.
 * 3. What waits is bounded, in requests and in bytes, for one caller and for all.
 */
import { LemonError } from "../../protocol/errors.ts";

export interface Waiting {
  readonly caller: string;
  /** What of it is in memory while it waits. */
  readonly bytes: number;
  /** Whether it may well take longer than others. */
  readonly long: boolean;
}

export interface QueueLimits {
  readonly requests: number;
  readonly bytes: number;
  readonly callerRequests: number;
  readonly callerBytes: number;
}

/** A connection has at most 256 requests in flight. */
const QUEUE_LIMITS: QueueLimits = {
  requests: 1_024,
  bytes: 64 * 1024 * 1024,
  callerRequests: 256,
  callerBytes: 32 * 1024 * 1024,
};

/** What moves more bytes than this is long. */
export const SHORT_BYTES = 65_536;
/** How many short requests go before a long one whose turn it is. */
const OVERTAKING = 8;

interface Lane<W> {
  readonly requests: W[];
  bytes: number;
}

export class FairQueue<W extends Waiting> {
  readonly #limits: QueueLimits;
  /** The round of callers; whoever was served goes to its end. */
  readonly #round = new Map<string, Lane<W>>();
  /** In the order they came. */
  readonly #arrived = new Set<W>();
  #bytes = 0;
  /** How many went before the long one whose turn it is. */
  #overtaken = 0;

  constructor(limits: QueueLimits = QUEUE_LIMITS) {
    this.#limits = limits;
  }

  /** Throws `filesystem_busy`. */
  enter(request: W): void {
    const { requests, bytes, callerRequests, callerBytes } = this.#limits;
    const lane = this.#round.get(request.caller);
    if (
      this.#arrived.size >= requests ||
      this.#bytes + request.bytes > bytes ||
      (lane?.requests.length ?? 0) >= callerRequests ||
      (lane?.bytes ?? 0) + request.bytes > callerBytes
    ) {
      throw new LemonError("filesystem_busy");
    }
    this.#arrived.add(request);
    this.#bytes += request.bytes;
    if (lane === undefined) {
      this.#round.set(request.caller, { requests: [request], bytes: request.bytes });
    } else {
      lane.requests.push(request);
      lane.bytes += request.bytes;
    }
  }

  /** Takes out the one whose turn it is. */
  next(): W | null {
    const heads = [...this.#round.values()].flatMap(({ requests }) => requests.slice(0, 1));
    const [first] = heads;
    if (first === undefined) return null;
    const mayOvertake = first.long && this.#overtaken < OVERTAKING;
    const sooner = mayOvertake ? heads.find(({ long }) => !long) : undefined;
    if (sooner !== undefined) this.#overtaken += 1;
    else if (first.long) this.#overtaken = 0;
    const request = sooner ?? first;
    this.leave(request);
    const lane = this.#round.get(request.caller);
    if (lane !== undefined) {
      this.#round.delete(request.caller);
      this.#round.set(request.caller, lane);
    }
    return request;
  }

  /** Takes this one out. */
  leave(request: W): void {
    if (!this.#arrived.delete(request)) return;
    this.#bytes -= request.bytes;
    const lane = this.#round.get(request.caller);
    if (lane === undefined) return;
    lane.bytes -= request.bytes;
    lane.requests.splice(lane.requests.indexOf(request), 1);
    if (lane.requests.length === 0) this.#round.delete(request.caller);
  }

  /** The one that waits longest. */
  get oldest(): W | null {
    const [oldest] = this.#arrived;
    return oldest ?? null;
  }
}
