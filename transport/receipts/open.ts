/**
 * Owns the opening of a receipt store: its parts put together, and everything that must hold before it
 * serves. The parts: `founding` (is it ours, is it whole), `witness` and `ledger` (what was ever
 * acknowledged), `verification` (does the stream still hold it), `journal` (one write, one read),
 * `store` (the rules), `health` and `custodian` (may it serve, and how it comes back).
 *
 * What is detected, with the stream and our own files damaged one at a time:
 * - an acknowledged revision that the stream lost, changed or replaced. Up to 64 such ids, as many as
 *   one crash can explain, are `lost` for good; more are `receipt_store_damaged`;
 * - a record that was announced when the process died, and that the stream lacks: it may have been
 *   acknowledged, so an id of which nothing else is known is `lost` too, and counts as none of the 64;
 * - a witness with a flipped, moved or foreign slot, with a hole, or cut further back than what may
 *   have been under way, or with more announced at a time than that; a missing one:
 *   `receipt_store_damaged`. A shorter cut is made good from the stream;
 * - a stream that is missing, another store's or set to forget; a note that is missing, another
 *   store's or damaged: `receipt_store_damaged`;
 * - a lost or damaged fingerprint key: a new one is made, ids stay spent, and intents from before are
 *   taken for the same.
 *
 * What is not detected here: the same revisions gone from stream AND witness, as from a disk restored
 * from an older copy. Whoever remembers `lastWitnessedSequence` elsewhere has it detected at open
 * (`expected.witnessedSequence`), except for what came after that was remembered.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { NatsConnection } from "@nats-io/transport-node";
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import type { FileLock } from "../../host/file-lock.ts";
import { systemFailure } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import { Bucket, type BucketTimeouts } from "./bucket.ts";
import { claimFolder } from "./claim.ts";
import { Custodian } from "./custodian.ts";
import { openFingerprinter } from "./fingerprint.ts";
import { foundOrRecognise } from "./founding.ts";
import { damaged, Health } from "./health.ts";
import { Journal } from "./journal.ts";
import { Ledger } from "./ledger.ts";
import { Link } from "./link.ts";
import type { OpenReceiptStore, ReceiptKind } from "./receipt.ts";
import { idOf } from "./record.ts";
import { ReceiptRules } from "./store.ts";
import { verifyStore } from "./verification.ts";

export interface ReceiptStoreOptions<State> {
  readonly kind: ReceiptKind<State>;
  /** The store account's connection. It must reconnect for ever; it stays the caller's to close. */
  readonly connection: NatsConnection;
  /** The system account's, for the proof of durability. Without one nothing is ever admitted. */
  readonly sys: NatsConnection | null;
  /** The store's own files lie below it in a folder named like the bucket; on the same disk as the stream. */
  readonly directory: string;
  /** This worker life. What another one left unfinished becomes `interrupted`. */
  readonly generation: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** Names an admission; a new name each time, that nobody can guess. Default: a random UUID. */
  readonly newInvocation?: () => string;
  /** What the controller's registry knows of this store. */
  readonly expected?: {
    readonly storeId: string;
    /** The highest `lastWitnessedSequence` that it was ever told. */
    readonly witnessedSequence?: number;
  };
  /**
   * Has the server with this id replaced by its supervisor; resolves when the next one serves. Needed
   * after a full disk, which JetStream does not get over by itself.
   */
  readonly restartServer?: (serverId: string) => Promise<unknown>;
  /** Copies in an external cluster. Default 1. */
  readonly replicas?: number;
  readonly timeouts?: Partial<ReceiptStoreTimeouts>;
}

export interface ReceiptStoreTimeouts extends BucketTimeouts {
  /** How long an operation whose answer did not come waits for the server to be back. */
  readonly readBackMs: number;
}

/** A synced put takes under 1 ms on a good disk; a bad one may take seconds when it is busy. */
const TIMEOUTS: ReceiptStoreTimeouts = { putMs: 3_000, readMs: 2_000, readBackMs: 2_000 };
const BUCKET_NAME = /^[a-z0-9-]{1,64}$/;

/**
 * Opens the store, or makes it. It resolves also when durability is not proven: then the store reads
 * and ends work, and admits once it is.
 * Errors: `receipt_store_damaged` (`details.reason`), `receipt_store_unavailable`, `store_in_use`,
 * `no_space`, `permission_denied`.
 */
export async function openReceiptStore<State>(
  options: ReceiptStoreOptions<State>,
): Promise<OpenReceiptStore<State>> {
  const { bucket, interrupted, lost } = options.kind;
  if (!BUCKET_NAME.test(bucket) || interrupted(lost) !== null)
    throw new LemonError("internal_error");
  const folder = join(options.directory, bucket);
  const lock = await claimFolder(folder);
  try {
    return await openClaimed(options, folder, lock);
  } catch (failure) {
    lock.release();
    throw systemFailure(failure);
  }
}

async function openClaimed<State>(
  options: ReceiptStoreOptions<State>,
  folder: string,
  lock: FileLock,
): Promise<OpenReceiptStore<State>> {
  const { kind, connection, sys, generation, clock, log, expected } = options;
  const { replicas = 1, newInvocation = randomUUID } = options;
  const timeouts = { ...TIMEOUTS, ...options.timeouts };
  const bucket = await Bucket.open(connection, kind.bucket, replicas, timeouts, clock);
  const files = { note: join(folder, "identity.json"), witness: join(folder, "witness") };
  const { witness, entries } = await foundOrRecognise(
    files,
    kind.bucket,
    bucket,
    expected?.storeId ?? null,
  );
  const ledger = new Ledger(entries);
  const link: Link = new Link(connection, () => health.changed());
  const health: Health = new Health(link, clock);
  const prover = sys === null ? null : new Link(sys, () => custodian.proverReturned());
  const journal: Journal = new Journal({
    bucket,
    witness,
    ledger,
    link,
    health,
    clock,
    log,
    directory: folder,
    readBackMs: timeouts.readBackMs,
    answered: () => custodian.putAnswered(),
    unanswered: (serverId, sentAtMs) => custodian.putUnanswered(serverId, sentAtMs),
  });
  let rules: ReceiptRules<State> | null = null;
  const custodian: Custodian = new Custodian({
    health,
    link,
    clock,
    log,
    directory: folder,
    verify: (serverId, signal) =>
      verifyStore({ bucket, sys, prover, ledger, witness, serverId, link, signal }),
    verified(result) {
      journal.compared();
      // Whatever fails in it is settled by whoever reads the id.
      rules?.sweep(result.found).catch(() => {});
    },
    restartServer: options.restartServer ?? null,
  });
  let closing: Promise<void> | null = null;
  async function closeOnce(): Promise<void> {
    health.close();
    custodian.close();
    // What the stream stores now, nobody would witness after this.
    await journal.idle();
    link.close();
    bucket.close();
    prover?.close();
    await witness.close();
    lock.release();
  }
  function close(): Promise<void> {
    closing ??= closeOnce();
    return closing;
  }
  try {
    const key = join(folder, "fingerprint.key");
    const { fingerprinter, made } = await openFingerprinter(key, kind.bucket);
    if (made && ledger.size > 0) {
      log.warn("the key of intents was lost; those of ids from before are taken for the same");
    }
    const first = await custodian.begin();
    if (ledger.witnessed < (expected?.witnessedSequence ?? 0)) throw damaged("older_copy");
    const parts = {
      kind,
      generation,
      journal,
      health,
      ledger,
      fingerprinter,
      clock,
      newInvocation,
    };
    const opened = new ReceiptRules<State>(parts);
    const swept = await opened.sweep(first.found);
    rules = opened;
    log.info({ retained: opened.retained, swept, state: health.state }, "receipt store is open");
    return {
      admit: (id, intent, state) => opened.admit(id, intent, state),
      advance: (receipt, next) => opened.advance(receipt, next),
      read: (id) => opened.read(id),
      async ids() {
        const keys = await bucket.keys(link.cut);
        // The store's own record has a key that is no id's.
        return keys.map(idOf).filter((id) => id !== null);
      },
      get retained() {
        return opened.retained;
      },
      storeId: witness.storeId,
      get lastWitnessedSequence() {
        return ledger.witnessed;
      },
      get condition() {
        return health.state;
      },
      get damage() {
        return health.damage;
      },
      watch: (changed) => health.watch(changed),
      close,
    };
  } catch (failure) {
    await close();
    throw failure;
  }
}
