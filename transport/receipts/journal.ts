/**
 * Owns the two ways to the stream: one revision written, one revision read, each held against what
 * was acknowledged.
 *
 * 1. A revision counts as written only when the stream has synced it AND the witness has.
 * 2. An answer that did not come is read back; only the revision's own bytes prove that it is there.
 *    What stays open is `unknown`, never "not written".
 * 3. A revision that is read was witnessed before it is shown.
 * 4. An id that the ledger knows never reads as absent.
 */
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { Bucket, Put } from "./bucket.ts";
import { damaged, type Health } from "./health.ts";
import type { Ledger } from "./ledger.ts";
import { type Link, untilAborted } from "./link.ts";
import {
  decodeRevision,
  digestOf,
  encodeRevision,
  hashOf,
  keyOf,
  type StoredRevision,
} from "./record.ts";
import { Slots } from "./slots.ts";
import { hasSpace } from "./space.ts";
import { PUTS_IN_FLIGHT, standingOf } from "./verification.ts";
import type { Witness } from "./witness.ts";

/** An id in its three forms: the caller's, the subject's, the witness's. */
export interface Target {
  readonly id: string;
  readonly key: string;
  readonly hash: string;
}

export function targetOf(id: string): Target {
  return { id, key: keyOf(id), hash: hashOf(id) };
}

export type Reading =
  | { readonly outcome: "found"; readonly sequence: number; readonly revision: StoredRevision }
  | { readonly outcome: "lost"; readonly sequence: number }
  | { readonly outcome: "absent" };

/** `absent`: certainly not written. `unknown`: it may be written, or may yet be. */
export type Written =
  | { readonly outcome: "written"; readonly sequence: number }
  | { readonly outcome: "conflict" | "revision_limit" | "absent" | "unknown" };

export interface JournalParts {
  readonly bucket: Bucket;
  readonly witness: Witness;
  readonly ledger: Ledger;
  readonly link: Link;
  readonly health: Health;
  readonly clock: Clock;
  readonly log: Logger;
  /** Where a full disk is looked for: the store's own. */
  readonly directory: string;
  /** How long a revision whose answer did not come waits for the server to be there again, in ms. */
  readonly readBackMs: number;
  /** Told of each put that was answered. */
  readonly answered: () => void;
  /** Told of each put that a server which answers reads left without an answer and without effect. */
  readonly unanswered: (serverId: string, sentAtMs: number) => void;
}

const UNANSWERED: Put = { outcome: "unanswered" };

/** Puts that may wait for their turn; every one of them is a caller who waits. */
const PUTS_WAITING = 4_096;

export class Journal {
  readonly #parts: JournalParts;
  readonly #slots = new Slots(PUTS_IN_FLIGHT, PUTS_WAITING);
  /** Slots of puts whose fate is open: given back once the stream was compared anew. */
  readonly #open: (() => void)[] = [];
  #writes = 0;
  readonly #idle: (() => void)[] = [];

  constructor(parts: JournalParts) {
    this.#parts = parts;
    const { health } = parts;
    // Nobody is to wait for a turn that may come when the caller is long gone.
    health.watch(() => {
      const refusal = health.refusal("advance");
      if (refusal !== null) this.#slots.turnAway(refusal);
    });
  }

  /**
   * Writes the revision that follows sequence `follows` (0: none).
   * Errors: `receipt_store_unavailable`, `receipt_store_damaged`, `durability_unproven` and `no_space`,
   * each of which means that it is not written.
   */
  async write(
    target: Target,
    revision: StoredRevision,
    follows: number,
    operation: "admit" | "advance",
  ): Promise<Written> {
    this.#writes += 1;
    try {
      return await this.#write(target, revision, follows, operation);
    } finally {
      this.#writes -= 1;
      if (this.#writes === 0) for (const idle of this.#idle.splice(0)) idle();
    }
  }

  /** Resolves when no write is under way: soon, in a store that takes no new ones. */
  async idle(): Promise<void> {
    if (this.#writes > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  async #write(
    target: Target,
    revision: StoredRevision,
    follows: number,
    operation: "admit" | "advance",
  ): Promise<Written> {
    const { bucket, clock, health, link, witness } = this.#parts;
    const bytes = encodeRevision(revision);
    const digest = digestOf(bytes);
    const release = await this.#slots.take();
    let settled = true;
    try {
      await this.#reserve();
      // Waiting may have taken long: what holds now counts.
      const refusal = health.refusal(operation);
      if (refusal !== null) throw refusal;
      const { serverId } = health;
      if (serverId === null || witness.failed) throw new LemonError("receipt_store_unavailable");
      const sentAtMs = clock.monotonicMs();
      const sent = bucket.put(target.key, bytes, follows);
      const put = await untilAborted(sent, link.cut, UNANSWERED);
      if (put.outcome !== "unanswered") this.#parts.answered();
      if (put.outcome === "stored" && health.serverId === serverId) {
        const { sequence } = put;
        settled = await this.#acknowledge(target, sequence, digest, revision);
        return settled ? { outcome: "written", sequence } : { outcome: "unknown" };
      }
      switch (put.outcome) {
        case "conflict":
        case "revision_limit":
          return { outcome: put.outcome };
        case "no_space":
          health.fill();
          throw new LemonError("no_space");
        case "undelivered":
        case "refused":
          health.doubt();
          return { outcome: "absent" };
        default: {
          const found = await this.#readBack(target, digest, follows, serverId);
          settled = found !== null;
          if (found?.outcome === "unknown") this.#parts.unanswered(serverId, sentAtMs);
          return found ?? { outcome: "unknown" };
        }
      }
    } finally {
      if (settled) release();
      else this.#open.push(release);
    }
  }

  /** Errors: `receipt_store_unavailable`, `receipt_store_damaged`. */
  async read(target: Target): Promise<Reading> {
    const { bucket, health, ledger, link } = this.#parts;
    const refusal = health.refusal("read");
    if (refusal !== null) throw refusal;
    const { serverId } = health;
    const message = await bucket.get(target.key, link.cut);
    // The answer must come from the server that was checked. Of a damaged store only what is proven by
    // its own digest is shown, whoever sent it.
    if (serverId !== health.serverId && health.damage === null) {
      throw new LemonError("receipt_store_unavailable");
    }
    const entry = ledger.get(target.hash);
    if (entry?.lost === true) return { outcome: "lost", sequence: entry.sequence };
    if (message === null) {
      if (entry !== undefined) throw this.#anomaly();
      if (health.damage !== null) throw damaged(health.damage);
      return { outcome: "absent" };
    }
    const { sequence, bytes } = message;
    const standing = standingOf(ledger, target.hash, sequence, bytes);
    if (standing.kind === "newly_lost" || standing.kind === "lost") throw this.#anomaly();
    const revision = decodeRevision(target.id, bytes);
    if (revision === null) throw damaged("foreign_record");
    if (standing.kind === "unwitnessed") {
      if (health.damage !== null) throw damaged(health.damage);
      const shown = await this.#acknowledge(target, sequence, standing.digest, revision);
      if (!shown) throw new LemonError("receipt_store_unavailable");
    }
    return { outcome: "found", sequence, revision };
  }

  /** The stream was compared with the ledger: nothing that was open is unwitnessed any more. */
  compared(): void {
    for (const release of this.#open.splice(0)) release();
  }

  async #reserve(): Promise<void> {
    try {
      await this.#parts.witness.reserve();
    } catch (failure) {
      if (failure instanceof LemonError && failure.code === "no_space") this.#parts.health.fill();
      throw failure;
    }
  }

  /** Witnesses a revision that the stream holds. False when that failed: nobody may be told of it then. */
  async #acknowledge(
    target: Target,
    sequence: number,
    digest: string,
    revision: StoredRevision,
  ): Promise<boolean> {
    const { witness, ledger, health, log } = this.#parts;
    try {
      await witness.append({ kind: "revision", sequence, id: target.hash, digest });
    } catch (failure) {
      log.error({ code: failure instanceof LemonError ? failure.code : null }, "witness failed");
      if (witness.failed) health.fail();
      else health.fill();
      return false;
    }
    ledger.note(target.hash, sequence, digest, revision);
    return true;
  }

  /**
   * Finds out what became of a revision whose answer did not come. Null when that cannot be told now.
   * Errors: `no_space`.
   */
  async #readBack(
    target: Target,
    digest: string,
    follows: number,
    serverId: string,
  ): Promise<Written | null> {
    const { health, ledger, link, directory, readBackMs } = this.#parts;
    await health.until((state) => state !== "verifying", readBackMs);
    let reading: Reading;
    try {
      reading = await this.read(target);
    } catch {
      // Whoever does not answer a read either is not one to trust with another put.
      health.doubt();
      return null;
    }
    if (reading.outcome === "found" && ledger.get(target.hash)?.digest === digest) {
      return { outcome: "written", sequence: reading.sequence };
    }
    if (reading.outcome === "lost") return { outcome: "conflict" };
    if (reading.outcome === "found" && reading.sequence > follows) return { outcome: "conflict" };
    if (!(await hasSpace(directory))) {
      health.fill();
      throw new LemonError("no_space");
    }
    // A server that is gone can store nothing any more; in a cluster another may still have it.
    const gone = health.serverId !== serverId && !link.clustered;
    return { outcome: gone ? "absent" : "unknown" };
  }

  /** The stream does not hold what was acknowledged: whether for good, the next comparison decides. */
  #anomaly(): LemonError {
    const { health, log } = this.#parts;
    if (health.damage !== null) return damaged(health.damage);
    log.warn("an acknowledged revision was not found; comparing the stream anew");
    health.doubt();
    return new LemonError("receipt_store_unavailable");
  }
}
