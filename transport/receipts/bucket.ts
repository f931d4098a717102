/**
 * Owns the KV bucket of a store in JetStream: its settings, and every request that is made of it.
 *
 * 1. A put names the sequence it follows; the server refuses any other. It is sent once, never again
 *    by itself.
 * 2. A read is answered by the stream's leader. Only its own "no message" is an absence.
 * 3. Of an append-only bucket nothing is ever deleted, purged or replaced; settings that would allow it are told
 *    as foreign. Of an erasable one a message is only ever erased: the server overwrites its bytes.
 */
import {
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { untilAborted } from "./link.ts";
import { type PutAnswer, Puts } from "./puts.ts";
import { MAX_REVISIONS } from "./record.ts";

export interface StoredMessage {
  /** The last token of its subject. */
  readonly key: string;
  readonly sequence: number;
  readonly bytes: Uint8Array;
}

/**
 * How a put came out. `stored`: synced under this sequence. `undelivered` and `refused`: certainly not
 * stored. `unanswered`: nobody knows.
 */
export type Put =
  | { readonly outcome: "stored"; readonly sequence: number }
  | {
      readonly outcome:
        | "conflict"
        | "revision_limit"
        | "no_space"
        | "undelivered"
        | "refused"
        | "unanswered";
    };

export interface Retention {
  /** Messages of one key that the stream keeps; it refuses the next. */
  readonly revisions: number;
  readonly erasable: boolean;
}

/** Nothing of a receipt is ever taken back. */
const APPEND_ONLY: Retention = { revisions: MAX_REVISIONS, erasable: false };

export interface BucketTimeouts {
  readonly putMs: number;
  readonly readMs: number;
}

/** What ends a request is our clock; the client's own timer only clears away what was given up. */
const CLIENT_TIMEOUT_MS = 60_000;

const MAX_MESSAGES_PER_SUBJECT = 10_077;
/** Answers to a deletion: no message found; the sequence is not in the stream. */
const NOT_THERE: readonly number[] = [10_037, 10_043];
/** Limits of the server or the account: memory, storage, the stream's own bytes. */
const OUT_OF_ROOM: readonly number[] = [10_023, 10_028, 10_047, 10_054];
/** Reads of one comparison that are under way at a time: they hide each other's round trip. */
const READS_IN_FLIGHT = 64;
/** Settings that take back, after the fact, what was acknowledged or how; we never set any. */
const NEVER_SET = [
  "sealed",
  "mirror",
  "sources",
  "republish",
  "subject_transform",
  "no_ack",
  "allow_msg_ttl",
  "allow_msg_counter",
  "allow_msg_schedules",
  "allow_atomic",
  "persist_mode",
  "subject_delete_marker_ttl",
] as const;

export class Bucket {
  readonly stream: string;
  readonly #subjects: string;
  readonly #puts: Puts;
  readonly #manager: JetStreamManager;
  readonly #timeouts: BucketTimeouts;
  readonly #clock: Clock;
  readonly #replicas: number;
  readonly #retention: Retention;

  private constructor(
    connection: NatsConnection,
    manager: JetStreamManager,
    name: string,
    replicas: number,
    timeouts: BucketTimeouts,
    clock: Clock,
    retention: Retention,
  ) {
    this.stream = `KV_${name}`;
    this.#subjects = `$KV.${name}.`;
    this.#manager = manager;
    this.#puts = new Puts(connection, this.stream);
    this.#timeouts = timeouts;
    this.#clock = clock;
    this.#replicas = replicas;
    this.#retention = retention;
  }

  static async open(
    connection: NatsConnection,
    name: string,
    replicas: number,
    timeouts: BucketTimeouts,
    clock: Clock,
    retention: Retention = APPEND_ONLY,
  ): Promise<Bucket> {
    const options = { checkAPI: false, timeout: CLIENT_TIMEOUT_MS };
    const manager = await jetstreamManager(connection, options);
    return new Bucket(connection, manager, name, replicas, timeouts, clock, retention);
  }

  /** Makes the stream. Errors: `receipt_store_unavailable`. */
  async create(): Promise<void> {
    await this.#answered(() => this.#manager.streams.add(this.#settings()));
  }

  /** Null when there is no such stream. Errors: `receipt_store_unavailable`, at once when aborted. */
  async info(signal?: AbortSignal): Promise<StreamInfo | null> {
    const request = async (): Promise<StreamInfo | null> => {
      try {
        return await this.#manager.streams.info(this.stream);
      } catch (failure) {
        if (codeOf(failure) === JetStreamApiCodes.StreamNotFound) return null;
        throw failure;
      }
    };
    return this.#answered(request, signal);
  }

  /** Whether the stream keeps every revision for good, as we made it to. */
  keepsEverything(config: StreamConfig): boolean {
    const { subjects, ...wanted } = this.#settings();
    const found: Readonly<Record<string, unknown>> = { ...config };
    return (
      // A mirror has none at all.
      String(config.subjects) === String(subjects) &&
      Object.entries(wanted).every(([name, value]) => sameSetting(found[name], value)) &&
      NEVER_SET.every((name) => sameSetting(found[name], undefined))
    );
  }

  async put(key: string, bytes: Uint8Array, follows: number): Promise<Put> {
    try {
      const put = this.#puts.send(`${this.#subjects}${key}`, bytes, follows);
      const answer = await within(this.#clock, this.#timeouts.putMs, put.answer);
      put.forget();
      return outcomeOf(answer);
    } catch {
      // The connection is closed.
      return { outcome: "unanswered" };
    }
  }

  /** Hears no more answers to puts. The connection is its owner's. */
  close(): void {
    this.#puts.close();
  }

  /** The last revision under a key. Errors: `receipt_store_unavailable`, at once when aborted. */
  async get(key: string, signal?: AbortSignal): Promise<StoredMessage | null> {
    const query = { last_by_subj: `${this.#subjects}${key}` };
    const request = () => this.#manager.streams.getMessage(this.stream, query);
    const found = await this.#answered(request, signal);
    return found === null ? null : { key, sequence: found.seq, bytes: found.data };
  }

  /**
   * The last revision under every key, each by a read of its own: a consumer passes over what the
   * server cannot read and still counts it. What the leader calls absent is missing here; the caller
   * compares. Errors: `receipt_store_unavailable`, at once when aborted.
   */
  async lastOfEach(signal: AbortSignal): Promise<StoredMessage[]> {
    const found: StoredMessage[] = [];
    await this.eachLast(signal, READS_IN_FLIGHT, (message) => void found.push(message));
    return found;
  }

  /** The same without keeping any: in no order, at most `inFlight` at a time in memory. */
  async eachLast(
    signal: AbortSignal,
    inFlight: number,
    visit: (message: StoredMessage) => void,
  ): Promise<void> {
    const keys = await this.keys(signal);
    const readers = Array.from({ length: inFlight }, async () => {
      for (let key = keys.pop(); key !== undefined; key = keys.pop()) {
        const message = await this.get(key, signal);
        if (message !== null) visit(message);
      }
    });
    await Promise.all(readers);
  }

  /**
   * Has the server overwrite a message and forget it; false when it stands no more. Errors:
   * `receipt_store_unavailable` (nobody knows).
   */
  async erase(sequence: number, signal?: AbortSignal): Promise<boolean> {
    const request = async (): Promise<boolean> => {
      try {
        return await this.#manager.streams.deleteMessage(this.stream, sequence, true);
      } catch (failure) {
        if (NOT_THERE.includes(codeOf(failure) ?? 0)) return false;
        throw failure;
      }
    };
    return this.#answered(request, signal);
  }

  /** Deletes the stream with its files, if there is one. Errors: `receipt_store_unavailable`. */
  async drop(): Promise<void> {
    if ((await this.info()) === null) return;
    await this.#answered(() => this.#manager.streams.delete(this.stream));
  }

  /** Every key that has a revision. Errors: `receipt_store_unavailable`, at once when aborted. */
  async keys(signal: AbortSignal): Promise<string[]> {
    const filter = { subjects_filter: `${this.#subjects}>` };
    const listing = () => this.#manager.streams.info(this.stream, filter);
    const { state } = await this.#answered(listing, signal);
    return Object.keys(state.subjects ?? {}).map((subject) => subject.slice(this.#subjects.length));
  }

  /** Any failure of a request, and its silence, is a store that does not answer. */
  async #answered<T>(request: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      const inTime = within(this.#clock, this.#timeouts.readMs, request());
      const answer = await (signal === undefined ? inTime : untilAborted(inTime, signal, LATE));
      if (answer === LATE) throw new LemonError("receipt_store_unavailable");
      return answer;
    } catch (failure) {
      if (failure instanceof LemonError) throw failure;
      throw new LemonError("receipt_store_unavailable", { cause: failure });
    }
  }

  #settings() {
    return {
      name: this.stream,
      subjects: [`${this.#subjects}>`],
      storage: StorageType.File,
      retention: RetentionPolicy.Limits,
      discard: DiscardPolicy.New,
      discard_new_per_subject: true,
      max_msgs_per_subject: this.#retention.revisions,
      max_msgs: -1,
      max_bytes: -1,
      max_msg_size: -1,
      max_age: 0,
      deny_delete: !this.#retention.erasable,
      deny_purge: true,
      allow_rollup_hdrs: false,
      allow_direct: false,
      num_replicas: this.#replicas,
    };
  }
}

const LATE = Symbol("late");

/** The answer, or `LATE` when it takes longer; what it becomes then is nobody's. */
async function within<T>(clock: Clock, ms: number, answer: Promise<T>): Promise<T | typeof LATE> {
  const { promise, resolve } = Promise.withResolvers<typeof LATE>();
  const cancel = clock.after(ms, () => resolve(LATE));
  try {
    return await Promise.race([answer, promise]);
  } finally {
    cancel();
    answer.catch(() => {});
  }
}

function outcomeOf(answer: PutAnswer | typeof LATE): Put {
  if (answer === LATE || answer === "foreign") return { outcome: "unanswered" };
  // JetStream is not up, or not for us.
  if (answer === "undelivered") return { outcome: "undelivered" };
  if ("sequence" in answer) return { outcome: "stored", sequence: answer.sequence };
  const { errorCode } = answer;
  if (
    errorCode === JetStreamApiCodes.StreamWrongLastSequence ||
    errorCode === JetStreamApiCodes.StreamWrongLastSequenceUnknown
  ) {
    return { outcome: "conflict" };
  }
  if (errorCode === MAX_MESSAGES_PER_SUBJECT) return { outcome: "revision_limit" };
  return { outcome: OUT_OF_ROOM.includes(errorCode) ? "no_space" : "refused" };
}

function codeOf(failure: unknown): number | null {
  return failure instanceof JetStreamApiError ? failure.code : null;
}

/** Servers leave out what is off; some write it down. */
function sameSetting(found: unknown, wanted: unknown): boolean {
  return found === wanted || (isOff(found) && isOff(wanted));
}

function isOff(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    value === false ||
    value === 0 ||
    value === "" ||
    value === "default" ||
    (Array.isArray(value) && value.length === 0)
  );
}
