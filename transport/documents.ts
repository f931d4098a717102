/**
 * Owns one bucket of typed documents in JetStream: current facts, not history. The latest revision of
 * a key is what it holds; the stream compacts the others away.
 *
 * 1. A read is strict: from the stream's leader. A read that failed is an error, never an absence and
 *    never an empty list.
 * 2. A write names the revision it replaces. What another writer wrote is never overwritten.
 * 3. A deleted key is spent: nothing can be created under it again.
 * 4. A write without an answer is read back; what stays unknown (`timeout`, `link_lost`) may have applied.
 * 5. Nothing waits for a connection that is down.
 */
import {
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StoredMsg,
  type StreamConfig,
} from "@nats-io/jetstream";
import { headers, type NatsConnection } from "@nats-io/transport-node";
import { LemonError } from "../protocol/errors.ts";
import { ConnectionWatch } from "./connection-watch.ts";

/** A document as it was read or written. */
export interface Document<T> {
  readonly key: string;
  readonly value: T;
  /** Stream sequence of this value: what `update` and `delete` compare. */
  readonly revision: number;
}

/**
 * Every operation can fail with `unavailable` (the store does not answer; a write was not done) or
 * `document_store_damaged` (a stored value is not ours). Writes also with `timeout` and `link_lost`
 * (uncertain).
 */
export interface Documents<T> {
  get(key: string): Promise<Document<T> | null>;
  /** Every document, in the order of their keys. */
  list(): Promise<Document<T>[]>;
  /** Errors: `revision_conflict` when the key exists or ever did. */
  create(key: string, value: T): Promise<Document<T>>;
  /** Errors: `revision_conflict` when the document is no longer at this revision. */
  update(document: Document<T>, value: T): Promise<Document<T>>;
  /** Errors: as `update`. */
  delete(document: Document<T>): Promise<void>;
}

export interface DocumentsOptions<T> {
  readonly connection: NatsConnection;
  /** Name of the bucket, `[a-z0-9-]`; its stream is `KV_<bucket>`, so any NATS KV client can look in. */
  readonly bucket: string;
  /** Decodes what JSON gave; throws on anything foreign. */
  readonly parse: (stored: unknown) => T;
  /** Copies in an external cluster. Default 1. */
  readonly replicas?: number;
  /** How long one request to the store may take. Default 5,000. */
  readonly timeoutMs?: number;
}

const BUCKET = /^[a-z0-9-]{1,64}$/;
const KEY = /^[A-Za-z0-9_-]{1,128}$/;
/** Header of a NATS KV entry; present on a marker alone. */
const OPERATION = "KV-Operation";
const DELETED = "DEL";
/** Reads of one `list` under way at a time: enough to hide a round trip, too few to fill a buffer. */
const READS_IN_FLIGHT = 64;
const NAME_IN_USE = 10_058;

/** Opens the bucket, making it on first use. Errors: as `Documents`; an `unavailable` says what JetStream lacks. */
export async function openDocuments<T>(options: DocumentsOptions<T>): Promise<Documents<T>> {
  const { connection, bucket, parse, replicas = 1, timeoutMs = 5_000 } = options;
  const watch = new ConnectionWatch(connection);
  if (!BUCKET.test(bucket)) throw new LemonError("internal_error");
  const stream = `KV_${bucket}`;
  const subjects = `$KV.${bucket}.`;
  const settings: Partial<StreamConfig> & { name: string } = {
    name: stream,
    subjects: [`${subjects}>`],
    storage: StorageType.File,
    retention: RetentionPolicy.Limits,
    // With one message a subject, "new" refuses nothing: an update always replaces its predecessor.
    discard: DiscardPolicy.New,
    max_msgs_per_subject: 1,
    max_msgs: -1,
    max_bytes: -1,
    max_age: 0,
    allow_direct: false,
    allow_rollup_hdrs: false,
    deny_delete: true,
    deny_purge: true,
    num_replicas: replicas,
  };
  try {
    const manager = await jetstreamManager(connection, { timeout: timeoutMs, checkAPI: false });
    const config = await watch.over(() => addStream(manager, settings));
    if (!keepsPromises(config, settings)) throw new LemonError("document_store_damaged");
    const client = jetstream(connection, { timeout: timeoutMs });
    return new Bucket({ watch, client, manager, stream, subjects, parse });
  } catch (error) {
    throw refusedBucket(error);
  }
}

function refusedBucket(error: unknown): LemonError {
  const isOff = error instanceof Error && error.name === "JetStreamNotEnabled";
  if (!isOff && !(error instanceof JetStreamApiError)) return unanswered(error);
  const why = isOff ? "it is not enabled for the controller's account" : error.message;
  return new LemonError("unavailable", {
    message: `JetStream does not keep the controller's documents: ${why}`,
    cause: error,
  });
}

async function addStream(
  manager: JetStreamManager,
  settings: Partial<StreamConfig> & { name: string },
): Promise<StreamConfig> {
  try {
    return (await manager.streams.add(settings)).config;
  } catch (error) {
    if (!(error instanceof JetStreamApiError) || error.code !== NAME_IN_USE) throw error;
    return (await manager.streams.info(settings.name)).config;
  }
}

/** Whether a bucket that stands with settings of its own (replicas, placement) still does what we rely on. */
function keepsPromises(config: StreamConfig, wanted: Partial<StreamConfig>): boolean {
  const same = ["storage", "retention", "max_msgs_per_subject", "max_msgs", "max_age"] as const;
  return (
    same.every((name) => config[name] === wanted[name]) &&
    config.subjects.join() === wanted.subjects?.join() &&
    !config.sealed &&
    config.mirror === undefined
  );
}

interface BucketParts<T> {
  readonly watch: ConnectionWatch;
  readonly client: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly stream: string;
  /** What every subject begins with. */
  readonly subjects: string;
  readonly parse: (stored: unknown) => T;
}

class Bucket<T> implements Documents<T> {
  readonly #at: BucketParts<T>;

  constructor(parts: BucketParts<T>) {
    this.#at = parts;
  }

  async get(key: string): Promise<Document<T> | null> {
    const message = await this.#latest(this.#subject(key));
    return message === null || isMarker(message) ? null : this.#document(key, message);
  }

  async list(): Promise<Document<T>[]> {
    const keys = await this.#everyKey();
    // One that we could not have written: somebody else writes here, and nothing is known of the rest.
    if (!keys.every((key) => KEY.test(key))) throw new LemonError("document_store_damaged");
    const found: Document<T>[] = [];
    for (let at = 0; at < keys.length; at += READS_IN_FLIGHT) {
      const part = keys.slice(at, at + READS_IN_FLIGHT);
      const documents = await Promise.all(part.map((key) => this.get(key)));
      for (const document of documents) if (document !== null) found.push(document);
    }
    return found;
  }

  create(key: string, value: T): Promise<Document<T>> {
    return this.#write(key, value, 0);
  }

  update(document: Document<T>, value: T): Promise<Document<T>> {
    return this.#write(document.key, value, document.revision);
  }

  async delete(document: Document<T>): Promise<void> {
    const marker = headers();
    marker.set(OPERATION, DELETED);
    await this.#publish(document.key, new Uint8Array(), document.revision, marker);
  }

  async #write(key: string, value: T, replaces: number): Promise<Document<T>> {
    const bytes = new TextEncoder().encode(JSON.stringify(value));
    return { key, value, revision: await this.#publish(key, bytes, replaces) };
  }

  async #publish(
    key: string,
    bytes: Uint8Array,
    replaces: number,
    marker = headers(),
  ): Promise<number> {
    const subject = this.#subject(key);
    try {
      const { watch, client } = this.#at;
      const options = { headers: marker, expect: { lastSubjectSequence: replaces } };
      return (await watch.over(() => client.publish(subject, bytes, options))).seq;
    } catch (error) {
      if (isConflict(error)) throw new LemonError("revision_conflict");
      if (isRefusal(error)) throw unanswered(error);
      return await this.#readBack(subject, bytes, replaces, marker.get(OPERATION), error);
    }
  }

  /** What became of a write that got no answer. */
  async #readBack(
    subject: string,
    bytes: Uint8Array,
    replaces: number,
    operation: string,
    cause: unknown,
  ): Promise<number> {
    const uncertain = cause instanceof LemonError ? cause : new LemonError("timeout", { cause });
    let latest: StoredMsg | null;
    try {
      latest = await this.#latest(subject);
    } catch {
      throw uncertain;
    }
    // Unchanged proves nothing: the server may still hold the write and apply it after this read.
    if (latest === null || latest.seq <= replaces) throw uncertain;
    const ours =
      Buffer.compare(latest.data, bytes) === 0 && latest.header.get(OPERATION) === operation;
    if (!ours) throw new LemonError("revision_conflict", { cause });
    return latest.seq;
  }

  async #latest(subject: string): Promise<StoredMsg | null> {
    const { watch, manager, stream } = this.#at;
    try {
      return await watch.over(() => manager.streams.getMessage(stream, { last_by_subj: subject }));
    } catch (error) {
      throw unanswered(error);
    }
  }

  async #everyKey(): Promise<string[]> {
    const { watch, manager, stream, subjects } = this.#at;
    const filter = { subjects_filter: `${subjects}>` };
    try {
      const { state } = await watch.over(() => manager.streams.info(stream, filter));
      return Object.keys(state.subjects ?? {})
        .map((subject) => subject.slice(subjects.length))
        .sort();
    } catch (error) {
      throw unanswered(error);
    }
  }

  #document(key: string, message: StoredMsg): Document<T> {
    try {
      const value = this.#at.parse(JSON.parse(message.string()));
      return { key, value, revision: message.seq };
    } catch (cause) {
      throw new LemonError("document_store_damaged", { cause });
    }
  }

  #subject(key: string): string {
    if (!KEY.test(key)) throw new LemonError("internal_error");
    return this.#at.subjects + key;
  }
}

function isMarker(message: StoredMsg): boolean {
  return message.header.has(OPERATION);
}

function isConflict(error: unknown): boolean {
  return (
    error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamWrongLastSequence
  );
}

/** Whether the server said no, nobody took the request, or it was never sent: then nothing was done. */
function isRefusal(error: unknown): boolean {
  return (
    error instanceof JetStreamApiError ||
    (error instanceof LemonError && error.code === "unavailable") ||
    (error instanceof Error && error.name === "JetStreamNotEnabled")
  );
}

function unanswered(error: unknown): LemonError {
  if (error instanceof LemonError && error.code === "document_store_damaged") return error;
  return new LemonError("unavailable", {
    message: "The controller's store does not answer; nothing was done",
    cause: error,
  });
}
