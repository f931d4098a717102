/**
 * Owns how many bytes of files may be on their way from one node at once. A node's helper reads faster than a
 * link and a client take it in, and answers leave in their order: what is under way is what the answer to
 * somebody's `stat` waits for.
 *
 * 1. Reads of one node share `UNDER_WAY_BYTES`; callers take turns. Nodes do not wait for each other.
 * 2. What waits holds no bytes; it is bounded in requests, and refused as not sent when its turn did not come.
 */
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId } from "../../protocol/ids.ts";
import { FairQueue, SHORT_BYTES, type Waiting } from "../file-service/queue.ts";

/** One is read while another travels. Twice as much was no faster here, and doubled what a `stat` waits. */
const UNDER_WAY_BYTES = 2 * 1024 * 1024;
/** Then the broker's deadline leaves too little for an answer. */
const WAIT_MS = 20_000;
/** In bytes it is not bounded: what waits to be read is in nobody's memory. */
const LIMITS = {
  requests: 4_096,
  callerRequests: 256,
  bytes: Number.POSITIVE_INFINITY,
  callerBytes: Number.POSITIVE_INFINITY,
};

interface Turn extends Waiting {
  readonly start: () => void;
}

interface Lane {
  readonly queue: FairQueue<Turn>;
  underWayBytes: number;
}

export class ReadLanes {
  readonly #clock: Clock;
  readonly #lanes = new Map<NodeId, Lane>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Does `read` when its turn has come; it is told how long it waited, in ms. Errors: `filesystem_busy`. */
  async through<T>(
    node: NodeId,
    caller: string,
    bytes: number,
    read: (waitedMs: number) => Promise<T>,
  ): Promise<T> {
    const enteredMs = this.#clock.monotonicMs();
    const lane = this.#lanes.get(node) ?? { queue: new FairQueue<Turn>(LIMITS), underWayBytes: 0 };
    this.#lanes.set(node, lane);
    await this.#turn(lane, caller, bytes);
    try {
      return await read(this.#clock.monotonicMs() - enteredMs);
    } finally {
      lane.underWayBytes -= bytes;
      this.#next(lane);
      if (lane.underWayBytes === 0) this.#lanes.delete(node);
    }
  }

  #turn(lane: Lane, caller: string, bytes: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const turn = { caller, bytes, long: bytes > SHORT_BYTES, start: resolve };
    lane.queue.enter(turn);
    this.#next(lane);
    const cancel = this.#clock.after(WAIT_MS, () => {
      lane.queue.leave(turn);
      reject(new LemonError("filesystem_busy"));
    });
    return promise.finally(cancel);
  }

  #next(lane: Lane): void {
    while (lane.underWayBytes < UNDER_WAY_BYTES) {
      const turn = lane.queue.next();
      if (turn === null) return;
      lane.underWayBytes += turn.bytes;
      turn.start();
    }
  }
}
