/**
 * Owns which nodes renew their links: a node asks for a pause, and is sent nothing until it is back.
 *
 * 1. A pause always ends: when the node is back, after 3 s, or with its link.
 * 2. A renewal keeps its number for a moment after its pause: the news that the old link has ended may come
 *    over another connection, later than the word that the node is back.
 */
import type { CancelTimer, Clock } from "../../host/clock.ts";
import type { NodeKey } from "../../protocol/ids.ts";

/** How long a node may keep its calls waiting while it renews its link. */
const HOLD_MS = 3_000;
/** How long after that the news of its old link's end may still be on their way. */
const RENEWED_MS = 1_000;

/** Keeps what a node is sent in its queue, and lets it go on. */
export interface Gate {
  hold(node: NodeKey): void;
  release(node: NodeKey): void;
}

interface Renewal {
  readonly serial: number;
  readonly cancel: CancelTimer;
}

export class Renewals {
  readonly #gate: Gate;
  readonly #clock: Clock;
  readonly #holds = new Map<NodeKey, Renewal>();
  readonly #renewed = new Map<NodeKey, Renewal>();
  #serial = 0;

  constructor(gate: Gate, clock: Clock) {
    this.#gate = gate;
    this.#clock = clock;
  }

  /** Pauses the node; does nothing when it is paused. */
  hold(node: NodeKey): void {
    if (this.#holds.has(node)) return;
    this.#serial += 1;
    const cancel = this.#clock.after(HOLD_MS, () => this.resume(node));
    this.#holds.set(node, { serial: this.#serial, cancel });
    this.#gate.hold(node);
  }

  /** Ends the node's pause, if there is one. */
  resume(node: NodeKey): void {
    const held = this.#holds.get(node);
    if (held === undefined) return;
    held.cancel();
    this.#holds.delete(node);
    this.#renewed.get(node)?.cancel();
    const cancel = this.#clock.after(RENEWED_MS, () => this.#renewed.delete(node));
    this.#renewed.set(node, { serial: held.serial, cancel });
    this.#gate.release(node);
  }

  /** The number of the renewal that is under way, or was a moment ago; null when there is none. */
  of(node: NodeKey): number | null {
    return (this.#holds.get(node) ?? this.#renewed.get(node))?.serial ?? null;
  }

  /** The node's link has ended. Whatever it renewed was that link; what comes next is on another. */
  forget(node: NodeKey): void {
    this.#renewed.get(node)?.cancel();
    this.#renewed.delete(node);
    this.#holds.get(node)?.cancel();
    if (this.#holds.delete(node)) this.#gate.release(node);
  }

  /** Ends every pause and leaves no timer. */
  stop(): void {
    for (const node of [...this.#holds.keys()]) this.resume(node);
    for (const { cancel } of this.#renewed.values()) cancel();
    this.#renewed.clear();
  }
}
