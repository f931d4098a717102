/**
 * Owns one store of records that forgets: its parts put together, one write at a time. The parts: `founding`
 * (which stream), `ledger` (what stands), `verification` (does the stream still hold it), and of the receipts the
 * bucket, the witness and the proof of durability.
 *
 * 1. The order of a put: the stream, the witness, the overwriting of what it replaced, the witness again. Killed
 *    after any step, the next verification finishes it; the record stands from the first one on.
 * 2. The order of a removal: the witness, the overwriting, the witness again.
 * 3. An answer that did not come is settled by a verification when the server is there again; only when it is
 *    not in time is the outcome unknown.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import type { Logger } from "pino";
import type { FileLock } from "../../host/file-lock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { type Damage, DamageError, damaged } from "../receipts/health.ts";
import { Link, untilAborted } from "../receipts/link.ts";
import { digestOf } from "../receipts/record.ts";
import { hasSpace } from "../receipts/space.ts";
import { inOurWords } from "./failure.ts";
import { discard, type Home, moveHome, openHome, type Place } from "./founding.ts";
import type { RecordSink, RecordStore } from "./record-store.ts";
import { type Verified, verifyRecords } from "./verification.ts";

/** A put whose connection was cut. */
const LOST = { outcome: "unanswered" } as const;

export interface RecordsParts {
  readonly place: Place;
  readonly home: Home;
  readonly lock: FileLock;
  readonly sys: NatsConnection | null;
  readonly sink: RecordSink;
  readonly log: Logger;
  readonly restartServer: ((serverId: string) => Promise<unknown>) | null;
  /** Entries of the witness before a new one is begun; beside them four for each record. */
  readonly witnessedAtMost: number;
  /** How long an operation waits for a server that is away, or on its way back. */
  readonly returnMs: number;
}

export class Records implements RecordStore {
  readonly #parts: RecordsParts;
  readonly #place: Place;
  readonly #link: Link;
  readonly #prover: Link | null;
  #home: Home;
  /** For which life of the server, and what came of it. */
  #verified: (Verified & { readonly serverId: string }) | null = null;
  #damage: Damage | null = null;
  /** The stream that the records were moved from, until it is deleted. */
  #former: string | null = null;
  /** A life of the server that left a put without answer or effect. */
  #stuck: string | null = null;
  #returned = Promise.withResolvers<void>();

  constructor(parts: RecordsParts) {
    this.#parts = parts;
    this.#place = parts.place;
    this.#home = parts.home;
    const changed = (): void => {
      this.#returned.resolve();
      this.#returned = Promise.withResolvers();
    };
    this.#link = new Link(parts.place.connection, changed);
    this.#prover = parts.sys === null ? null : new Link(parts.sys, changed);
  }

  get isVerified(): boolean {
    return this.#verified !== null && this.#verified.serverId === this.#link.serverId;
  }

  get damage(): string | null {
    return this.#damage;
  }

  get unerased(): number {
    return this.#home.ledger.unerased.size;
  }

  verify(): Promise<void> {
    return inOurWords(() => this.#verify());
  }

  get(key: string): Promise<Uint8Array> {
    return inOurWords(async () => {
      const standing = this.#home.ledger.standing.get(hashOf(key));
      const message = await this.#home.bucket.get(key, this.#link.cut);
      const intact =
        message !== null &&
        message.sequence === standing?.sequence &&
        digestOf(message.bytes) === standing.digest;
      if (!intact) {
        this.#damage ??= "revisions_lost";
        throw damaged(this.#damage);
      }
      return message.bytes;
    });
  }

  put(key: string, bytes: Uint8Array): Promise<boolean> {
    return inOurWords(async () => {
      await this.#refuseWrite();
      const { bucket, witness, ledger } = this.#home;
      const hash = hashOf(key);
      const digest = digestOf(bytes);
      await witness.reserve();
      const follows = ledger.standing.get(hash)?.sequence ?? 0;
      const put = await untilAborted(bucket.put(key, bytes, follows), this.#link.cut, LOST);
      if (put.outcome !== "stored") return this.#unstored(put.outcome, hash, digest);
      const { sequence } = put;
      try {
        await witness.append({ kind: "revision", id: hash, sequence, digest });
      } catch {
        this.#verified = null;
        throw new LemonError("secret_outcome_unknown");
      }
      ledger.note(hash, { sequence, digest });
      return this.#forget();
    });
  }

  remove(key: string): Promise<void> {
    return inOurWords(async () => {
      await this.#refuseWrite();
      const { witness, ledger } = this.#home;
      const hash = hashOf(key);
      const standing = ledger.standing.get(hash);
      if (standing === undefined) return;
      await witness.reserve();
      try {
        await witness.append({ kind: "removed", id: hash, ...standing });
      } catch {
        this.#verified = null;
        throw new LemonError("secret_outcome_unknown");
      }
      ledger.remove(hash);
      if (!(await this.#forget())) throw new LemonError("secret_outcome_unknown");
    });
  }

  async close(): Promise<void> {
    this.#link.close();
    this.#prover?.close();
    this.#home.bucket.close();
    await this.#home.witness.close();
    this.#parts.lock.release();
  }

  async #verify(): Promise<void> {
    if (this.#home.witness.failed) await this.#reopen();
    await this.#until(() => this.#link.serverId !== null);
    const { serverId } = this.#link;
    if (serverId === null) throw new LemonError("receipt_store_unavailable");
    // The connection that proves durability comes back on its own.
    const prover = this.#prover;
    if (prover !== null)
      await this.#until(() => prover.serverId === serverId || this.#link.clustered);
    const signal = this.#link.cut;
    const { sys, sink } = this.#parts;
    const parts = { sys, prover, link: this.#link, serverId, signal, sink };
    try {
      const verified = await verifyRecords({ home: this.#home, ...parts });
      const canMove = verified.writable && verified.damage === null;
      if (verified.mayHaveLeft || (canMove && this.#isOvergrown())) await this.#move(signal);
      await this.#leave();
      if (signal.aborted) throw new LemonError("receipt_store_unavailable");
      this.#verified = { ...verified, serverId };
      this.#damage ??= verified.damage;
    } catch (failure) {
      if (failure instanceof DamageError) this.#damage ??= failure.reason;
      throw failure;
    }
    if (this.#damage === null) return;
    this.#parts.log.error({ reason: this.#damage }, "the store of secrets is damaged");
  }

  /** What the disk holds of a witness that could not be written is known only by reading it. */
  async #reopen(): Promise<void> {
    this.#home.bucket.close();
    await this.#home.witness.close();
    this.#home = await openHome(this.#place);
  }

  /** Most of the witness speaks of what is long forgotten: a move begins a new one. */
  #isOvergrown(): boolean {
    const { witness, ledger } = this.#home;
    return witness.count > this.#parts.witnessedAtMost + 4 * ledger.standing.size;
  }

  async #move(signal: AbortSignal): Promise<void> {
    const { name } = this.#home;
    this.#home = await moveHome(this.#place, this.#home, signal);
    this.#former = name;
    this.#parts.log.info("the records were moved to a new stream");
  }

  /** Deletes the stream that the records were moved from. */
  async #leave(): Promise<void> {
    if (this.#former === null) return;
    await discard(this.#place, this.#former);
    this.#former = null;
  }

  /** Resolves once it holds of the connections, or after a while. */
  async #until(holds: () => boolean): Promise<void> {
    const late = new AbortController();
    const cancel = this.#place.clock.after(this.#parts.returnMs, () => late.abort());
    try {
      while (!holds() && !late.signal.aborted) {
        await untilAborted(this.#returned.promise, late.signal, undefined);
      }
    } finally {
      cancel();
    }
  }

  #current(): Verified | null {
    return this.isVerified ? this.#verified : null;
  }

  async #refuseWrite(): Promise<void> {
    if (this.#damage !== null) throw damaged(this.#damage);
    await this.#unstick();
    // What is not overwritten yet comes first; so does a proof that was not there.
    const before = this.#current();
    const isReady = before?.proven === true && before.writable && this.unerased === 0;
    if (!isReady || this.#isOvergrown()) await this.#verify();
    const verified = this.#current();
    if (this.#damage !== null) throw damaged(this.#damage);
    if (verified === null) throw new LemonError("secret_store_unavailable");
    if (!verified.writable) throw await this.#unwritable();
    if (!verified.proven) throw new LemonError("durability_unproven");
  }

  /** What becomes of a put that was not acknowledged. Resolves when it stands all the same. */
  async #unstored(outcome: string, hash: string, digest: string): Promise<boolean> {
    this.#verified = null;
    if (outcome === "no_space") throw new LemonError("no_space");
    if (outcome !== "unanswered") throw new LemonError("secret_store_unavailable");
    const sentTo = this.#link.serverId;
    try {
      await this.#verify();
    } catch (cause) {
      throw new LemonError("secret_outcome_unknown", { cause });
    }
    const { ledger } = this.#home;
    if (ledger.standing.get(hash)?.digest === digest) return this.unerased === 0;
    if (this.#current()?.writable === true) throw new LemonError("secret_store_unavailable");
    this.#stuck = sentTo;
    throw await this.#unwritable();
  }

  /** Why the stream takes nothing. */
  async #unwritable(): Promise<LemonError> {
    this.#stuck ??= this.#link.serverId;
    this.#verified = null;
    const space = await hasSpace(this.#place.folder);
    return new LemonError(space ? "secret_store_unavailable" : "no_space");
  }

  /** After a failed write a stream takes nothing more in that life of its server. */
  async #unstick(): Promise<void> {
    const stuck = this.#stuck;
    const { restartServer, log } = this.#parts;
    if (stuck === null || restartServer === null) return;
    if (stuck === this.#link.serverId) {
      if (!(await hasSpace(this.#place.folder))) throw new LemonError("no_space");
      log.warn("asking for a restart of the server");
      await restartServer(stuck);
    }
    this.#stuck = null;
  }

  /** Overwrites what the last write replaced. False when that is still to be done. */
  async #forget(): Promise<boolean> {
    const { bucket, witness, ledger } = this.#home;
    try {
      for (const [sequence, hash] of [...ledger.unerased]) {
        // Forgotten before: an earlier answer was lost, and with it the certainty.
        if (!(await bucket.erase(sequence, this.#link.cut))) break;
        await witness.append({ kind: "erased", id: hash, sequence, digest: hash });
        ledger.erased(sequence);
      }
    } catch {
      this.#verified = null;
    }
    return this.unerased === 0;
  }
}

function hashOf(key: string): string {
  return Buffer.from(key, "base64url").toString("latin1");
}
