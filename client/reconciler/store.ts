/**
 * Owns the brain's memory of what it wants and what it was about to do, in one SQLite database (node:sqlite, which
 * Node.js has built in: no native package, and no binary to fetch).
 *
 * 1. What a method has returned from is on the disk (`synchronous = FULL`), so an intent outlives any crash between
 *    it and the change.
 * 2. One process holds the database; a second one is refused at `open`.
 * 3. At most one intent of a setting is open: a newer one supersedes it.
 * 4. It is private (0600), and holds no credential: an operation keeps its kind, never its request.
 */
import { closeSync, constants, openSync } from "node:fs";
import { DatabaseSync, type SQLOutputValue, type StatementSync } from "node:sqlite";

/** What was meant to be in effect, since when, and what is known of it. */
export interface Intent {
  readonly id: number;
  readonly key: string;
  readonly value: unknown;
  readonly recordedMs: number;
  readonly attempts: number;
  /** Code of the last attempt that did not do it. */
  readonly failure: string | null;
}

/** How an intent ended. */
export type IntentEnd = "verified" | "refused" | "superseded" | "withdrawn";

/** A job that was asked for. */
export interface OperationRow {
  /** Its `Idempotency-Key`. */
  readonly id: string;
  readonly kind: string;
  readonly recordedMs: number;
  /** Null while the host's answer is not known. */
  readonly jobId: string | null;
  /** The status that the job ended with, once it was seen. */
  readonly end: string | null;
}

const VERSION = 1;
const SCHEMA = `
  CREATE TABLE desired (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    since_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE intents (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    previous TEXT,
    recorded_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    failure TEXT,
    closed_ms INTEGER,
    end TEXT
  ) STRICT;
  CREATE UNIQUE INDEX one_open_intent ON intents (key) WHERE closed_ms IS NULL;
  CREATE TABLE operations (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    recorded_ms INTEGER NOT NULL,
    job_id TEXT,
    closed_ms INTEGER,
    end TEXT
  ) STRICT;
  PRAGMA user_version = ${VERSION};
`;

/** Closed rows that are kept for whoever asks what was done; older ones go. */
const HISTORY = 1_000;

export class ReconcilerStore {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  /** Throws when another process holds it, or a newer version wrote it. */
  constructor(path: string) {
    // SQLite would make it with the umask's mode.
    closeSync(openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600));
    this.#database = new DatabaseSync(path, { enableForeignKeyConstraints: true });
    try {
      this.#database.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL");
      this.#database.exec("PRAGMA synchronous = FULL");
      this.transaction(() => this.#migrate());
    } catch (failure) {
      this.#database.close();
      throw failure;
    }
  }

  close(): void {
    this.#database.close();
  }

  /** What is wanted, by key. */
  desired(): ReadonlyMap<string, unknown> {
    const rows = this.#all("SELECT key, value FROM desired ORDER BY key");
    return new Map(rows.map((row) => [text(row["key"]), JSON.parse(text(row["value"]))]));
  }

  /** Wants the value from now on, and means to bring it into effect. */
  intend(key: string, value: unknown, nowMs: number): Intent {
    const json = JSON.stringify(value);
    return this.transaction(() => {
      const open = this.openIntent(key);
      // What to go back to when this is refused: what was wanted before anything that is still open.
      const [before] = this.#all(
        open === null
          ? "SELECT value AS previous FROM desired WHERE key = ?"
          : "SELECT previous FROM intents WHERE key = ? AND closed_ms IS NULL",
        key,
      );
      if (open !== null) this.#close(open.id, "superseded", nowMs);
      this.#want(key, json, nowMs);
      this.#run(
        "INSERT INTO intents (key, value, previous, recorded_ms) VALUES (?, ?, ?, ?)",
        key,
        json,
        before?.["previous"] ?? null,
        nowMs,
      );
      const made = this.openIntent(key);
      if (made === null) throw new Error("an intent was not kept");
      return made;
    });
  }

  /** Wants what the host has; there is nothing to bring into effect. */
  adopt(key: string, value: unknown, nowMs: number): void {
    this.transaction(() => {
      const open = this.openIntent(key);
      if (open !== null) this.#close(open.id, "superseded", nowMs);
      this.#want(key, JSON.stringify(value), nowMs);
    });
  }

  /** Wants nothing of it any more. */
  forget(key: string, nowMs: number): void {
    this.transaction(() => {
      const open = this.openIntent(key);
      if (open !== null) this.#close(open.id, "withdrawn", nowMs);
      this.#run("DELETE FROM desired WHERE key = ?", key);
    });
  }

  openIntent(key: string): Intent | null {
    const [row] = this.#all("SELECT * FROM intents WHERE key = ? AND closed_ms IS NULL", key);
    return row === undefined ? null : intent(row);
  }

  openIntents(): readonly Intent[] {
    return this.#all("SELECT * FROM intents WHERE closed_ms IS NULL ORDER BY id").map(intent);
  }

  /** An attempt is about to be made. */
  attempting(id: number): void {
    this.#run("UPDATE intents SET attempts = attempts + 1 WHERE id = ?", id);
  }

  failed(id: number, code: string): void {
    this.#run("UPDATE intents SET failure = ? WHERE id = ? AND closed_ms IS NULL", code, id);
  }

  verified(id: number, nowMs: number): void {
    this.transaction(() => this.#close(id, "verified", nowMs));
  }

  /** It will never be in effect: what was wanted before is wanted again. */
  refused({ id, key }: Intent, code: string, nowMs: number): void {
    this.transaction(() => {
      this.failed(id, code);
      const [row] = this.#all("SELECT previous FROM intents WHERE id = ?", id);
      const previous = row?.["previous"];
      if (typeof previous === "string") this.#want(key, previous, nowMs);
      else this.#run("DELETE FROM desired WHERE key = ?", key);
      this.#close(id, "refused", nowMs);
    });
  }

  recordOperation(id: string, kind: string, nowMs: number): void {
    this.#run("INSERT INTO operations (id, kind, recorded_ms) VALUES (?, ?, ?)", id, kind, nowMs);
  }

  startedOperation(id: string, jobId: string): void {
    this.#run("UPDATE operations SET job_id = ? WHERE id = ?", jobId, id);
  }

  openOperations(): readonly OperationRow[] {
    const rows = this.#all("SELECT * FROM operations WHERE closed_ms IS NULL ORDER BY recorded_ms");
    return rows.map((row) => ({
      id: text(row["id"]),
      kind: text(row["kind"]),
      recordedMs: Number(row["recorded_ms"]),
      jobId: row["job_id"] === null ? null : text(row["job_id"]),
      end: row["end"] === null ? null : text(row["end"]),
    }));
  }

  endedOperation(id: string, end: string): void {
    this.#run("UPDATE operations SET end = ? WHERE id = ? AND closed_ms IS NULL", end, id);
  }

  /** Nobody needs to hear of it any more. */
  closeOperation(id: string, nowMs: number): void {
    this.transaction(() => {
      this.#run("UPDATE operations SET closed_ms = ? WHERE id = ?", nowMs, id);
      this.#prune("operations");
    });
  }

  transaction<T>(work: () => T): T {
    if (this.#database.isTransaction) return work();
    this.#database.exec("BEGIN IMMEDIATE");
    try {
      const result = work();
      this.#database.exec("COMMIT");
      return result;
    } catch (failure) {
      if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
      throw failure;
    }
  }

  #migrate(): void {
    const [row] = this.#all("PRAGMA user_version");
    const version = Number(row?.["user_version"]);
    if (version > VERSION) throw new Error("a newer version of lemon wrote this database");
    if (version === 0) this.#database.exec(SCHEMA);
  }

  #want(key: string, json: string, nowMs: number): void {
    this.#run(
      `INSERT INTO desired (key, value, since_ms) VALUES (?, ?, ?)
       ON CONFLICT (key) DO UPDATE SET value = excluded.value, since_ms = excluded.since_ms`,
      key,
      json,
      nowMs,
    );
  }

  #close(id: number, end: IntentEnd, nowMs: number): void {
    this.#run("UPDATE intents SET closed_ms = ?, end = ? WHERE id = ?", nowMs, end, id);
    this.#prune("intents");
  }

  #prune(table: "intents" | "operations"): void {
    this.#run(
      `DELETE FROM ${table} WHERE closed_ms IS NOT NULL AND rowid NOT IN
         (SELECT rowid FROM ${table} WHERE closed_ms IS NOT NULL ORDER BY closed_ms DESC LIMIT ${HISTORY})`,
    );
  }

  #run(sql: string, ...values: (string | number | null | SQLOutputValue)[]): void {
    this.#prepared(sql).run(...values);
  }

  #all(sql: string, ...values: (string | number)[]): Record<string, SQLOutputValue>[] {
    return this.#prepared(sql).all(...values);
  }

  #prepared(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

function intent(row: Record<string, SQLOutputValue>): Intent {
  return {
    id: Number(row["id"]),
    key: text(row["key"]),
    value: JSON.parse(text(row["value"])),
    recordedMs: Number(row["recorded_ms"]),
    attempts: Number(row["attempts"]),
    failure: row["failure"] === null ? null : text(row["failure"]),
  };
}

function text(value: SQLOutputValue | undefined): string {
  if (typeof value !== "string") throw new Error("the database holds what was never written to it");
  return value;
}
