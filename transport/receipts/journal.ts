/**
 * Owns the two ways to the stream: one revision written, one revision read, each held against what
 * was acknowledged.
 *
 * 1. A revision counts as written only when the stream has synced it AND the witness has: by the
 *    announcement that is written while the stream stores the revision, or by the revision itself.
 * 2. What was not written is told only after its announcement was withdrawn, synced: nobody finds later
 *    that something may have happened after all.
 * 3. The word that ends an announcement is handed to the witness before the put's slot is given back:
 *    at no point of the file are more than `PUTS_IN_FLIGHT` announcements open.
 * 4. An answer that did not come is read back; only the revision's own bytes prove that it is there.
 *    What stays open is `unknown`, never "not written".
 * 5. A revision that is read was witnessed before it is shown.
 * 6. An id that the ledger knows never reads as absent.
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
  type StoredRevision,
  type Target,
} from "./record.ts";
import { Slots } from "./slots.ts";
import { hasSpace } from "./space.ts";
import { PUTS_IN_FLIGHT, standingOf } from "./verification.ts";
import type { Witness } from "./witness.ts";
import type { WitnessEntry } from "./witness-format.ts";

export type Reading =
  | { readonly outcome: "found"; readonly sequence: number; readonly revision: StoredRevision }
  | { readonly outcome: "lost"; readonly sequence: number }
  | { readonly outcome: "absent" };

/** `absent`: certainly not written. `unknown`: it may be written, or may yet be. */
type Written =
  | { readonly outcome: "written"; readonly sequence: number }
  | { readonly outcome: "conflict" | "revision_limit" | "absent" | "unknown" };

type Stored = Extract<Put, { outcome: "stored" }>;
/** What became of a revision that was sent; null when that can be told only after a comparison. */
type Fate = Written | { readonly outcome: "no_space" } | null;

/** A revision on its way. */
interface Sent {
  readonly target: Target;
  readonly digest: string;
  readonly follows: number;
  /** The life of the server that it was sent to. */
  readonly serverId: string;
  readonly atMs: number;
}

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
   * Writes the revision that follows sequence `follows` (0: none); of one id one at a time.
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
    const { clock, health, ledger, witness } = this.#parts;
    const bytes = encodeRevision(revision);
    const digest = digestOf(bytes);
    const entry = { id: target.hash, sequence: 0, digest };
    const release = await this.#slots.take();
    let settled = true;
    try {
      await this.#reserve();
      // Waiting may have taken long: what holds now counts.
      const refusal = health.refusal(operation);
      if (refusal !== null) throw refusal;
      const { serverId } = health;
      if (serverId === null || witness.failed) throw new LemonError("receipt_store_unavailable");
      const sent: Sent = { target, digest, follows, serverId, atMs: clock.monotonicMs() };
      const [told, announced] = await Promise.all([
        this.#send(sent, bytes),
        this.#witnessed({ kind: "announced", ...entry }),
      ]);
      const stored = told?.outcome === "stored";
      // A server that has another life meanwhile may have lost it again.
      if (stored && announced && health.serverId === serverId) {
        const { sequence } = told;
        witness.appendLater({ kind: "revision", ...entry, sequence });
        ledger.note(target.hash, sequence, digest, revision);
        return { outcome: "written", sequence };
      }
      const stands = stored && announced ? await this.#readBack(sent) : null;
      const fate = stored ? stands : told;
      settled = fate !== null;
      // It was read back, and has a slot of its own.
      if (fate?.outcome === "written") return fate;
      const withdrawn: WitnessEntry = { kind: "withdrawn", ...entry };
      const uncertain = fate === null || fate.outcome === "unknown";
      if (uncertain || !(await this.#witnessed(withdrawn))) {
        if (announced) witness.appendLater(withdrawn);
        return { outcome: "unknown" };
      }
      if (fate.outcome === "no_space") throw new LemonError("no_space");
      return fate;
    } finally {
      if (settled) release();
      else this.#open.push(release);
    }
  }

  /** Puts the revision into the stream; what the server does not tell is read back. */
  async #send(sent: Sent, bytes: Uint8Array): Promise<Stored | Fate> {
    const { answered, bucket, health, link, unanswered } = this.#parts;
    const answer = bucket.put(sent.target.key, bytes, sent.follows);
    const put = await untilAborted(answer, link.cut, UNANSWERED);
    if (put.outcome !== "unanswered") answered();
    switch (put.outcome) {
      case "conflict":
      case "revision_limit":
        return { outcome: put.outcome };
      case "no_space":
        health.fill();
        return { outcome: "no_space" };
      case "undelivered":
      case "refused":
        health.doubt();
        return { outcome: "absent" };
      default: {
        if (put.outcome === "stored" && health.serverId === sent.serverId) return put;
        const found = await this.#readBack(sent);
        if (found?.outcome === "unknown") unanswered(sent.serverId, sent.atMs);
        return found;
      }
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
    { hash }: Target,
    sequence: number,
    digest: string,
    revision: StoredRevision,
  ): Promise<boolean> {
    const synced = await this.#witnessed({ kind: "revision", sequence, id: hash, digest });
    if (synced) this.#parts.ledger.note(hash, sequence, digest, revision);
    return synced;
  }

  /** Whether the witness has synced the entry. When not, the store serves no more, or until there is space. */
  async #witnessed(entry: WitnessEntry): Promise<boolean> {
    const { witness, health, log } = this.#parts;
    try {
      await witness.append(entry);
      return true;
    } catch (failure) {
      log.error({ code: failure instanceof LemonError ? failure.code : null }, "witness failed");
      if (witness.failed) health.fail();
      else health.fill();
      return false;
    }
  }

  /** Finds out what became of a revision whose answer did not come, or came from an earlier life. */
  async #readBack({ target, digest, follows, serverId }: Sent): Promise<Fate> {
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
      return { outcome: "no_space" };
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
