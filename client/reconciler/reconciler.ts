/**
 * Owns the brain's reconciling of a host (host-agent contract, "Reconciler pattern"): what it wants, what the host
 * has, and which of the two gives way.
 *
 * 1. An intent is on the disk before its change is asked for, and is closed only after the state summary has shown
 *    the change in effect.
 * 2. An open intent is brought into effect again, at every pass. A closed one that no longer matches is drift:
 *    somebody else's doing, which is shown and not touched until `fix` or `adopt` says so.
 * 3. An operation (a job) is asked for at most once, by whoever called `start`, and never by a pass. One whose
 *    request a crash cut off is `interrupted`: shown until it is acknowledged.
 * 4. Changes and passes take turns, so that what is compared is not being changed by us.
 * 5. A host that can not be reached is no error: nothing is concluded from it, and the next pass tries again.
 */
import { randomUUID } from "node:crypto";
import { hasEnded, type JobView, jobStatus } from "../../protocol/host-agent/job.ts";
import type { RouteBodyInput } from "../../protocol/host-agent/routes.ts";
import type { RouteArguments } from "../host-agent/index.ts";
import { platformTimers, type Timers } from "../timers.ts";
import { failureOf, type ReconciledHost, type StateSummary } from "./host.ts";
import { type Setting, type SettingKey, type SettingValues, settingOf } from "./settings.ts";
import { type Intent, type OperationRow, ReconcilerStore } from "./store.ts";

/** Between two passes, in ms (contract: the 60-second heartbeat). */
const HEARTBEAT_MS = 60_000;

/** The routes that start a job. */
export type OperationKind = "systemUpdate" | "enrollDrive" | "ejectDrive" | "reboot" | "shutdown";

export interface SettingReport {
  readonly key: string;
  readonly wanted: unknown;
  /** Null when the host does not have it, or could not be asked. */
  readonly actual: unknown;
  /**
   * `in_effect`; `pending`: an open intent, tried again at the next pass; `drift`: something else changed it;
   * `unknown`: the host could not be asked.
   */
  readonly state: "in_effect" | "pending" | "drift" | "unknown";
  /** Of a pending one: how often it was tried, and the code of the last failure. */
  readonly attempts: number;
  readonly failure: string | null;
}

export interface OperationReport {
  readonly id: string;
  readonly kind: string;
  readonly recordedMs: number;
  readonly jobId: string | null;
  /** `interrupted`: whether it ever began is not known, or the host knows it no more. Never sent again. */
  readonly state: JobView["status"] | "interrupted" | "unknown";
}

export interface Report {
  readonly takenMs: number;
  readonly reachable: boolean;
  readonly settings: readonly SettingReport[];
  /** Intents that the host refused in this pass: what was wanted before them is wanted again. */
  readonly refused: readonly { readonly key: string; readonly code: string }[];
  /** Those that have not ended, or whose end nobody has acknowledged. */
  readonly operations: readonly OperationReport[];
}

export interface ReconcilerOptions {
  /** The database file; its folder exists. */
  readonly path: string;
  readonly host: ReconciledHost;
  /** Hears the report of every pass, and of every change. */
  readonly onReport?: (report: Report) => void;
  readonly timers?: Timers;
  /** Wall clock, Unix milliseconds. */
  readonly nowMs?: () => number;
}

/** A change that the host refused for good; nothing is wanted otherwise than before. */
export class ChangeRefused extends Error {
  override readonly name = "ChangeRefused";
  readonly code: string;

  constructor(code: string, cause: unknown) {
    super(`the host refused the change (${code}); what was wanted before is wanted again`, {
      cause,
    });
    this.code = code;
  }
}

export class Reconciler {
  readonly #store: ReconcilerStore;
  readonly #host: ReconciledHost;
  readonly #timers: Timers;
  readonly #nowMs: () => number;
  readonly #onReport: (report: Report) => void;
  #turn: Promise<unknown> = Promise.resolve();
  #cancelHeartbeat = (): void => {};
  #closed = false;

  /** Opens the database; nothing is asked of the host before `start`, `pass` or a change. */
  constructor({ path, host, onReport, timers, nowMs }: ReconcilerOptions) {
    this.#store = new ReconcilerStore(path);
    this.#host = host;
    this.#timers = timers ?? platformTimers;
    this.#nowMs = nowMs ?? Date.now;
    this.#onReport = onReport ?? (() => {});
  }

  /** A pass now, whose report it resolves with, and one a minute from then on. */
  async start(): Promise<Report> {
    const report = await this.pass();
    this.#beat();
    return report;
  }

  /** Waits for what is under way; changes nothing any more. Idempotent. */
  async close(): Promise<void> {
    this.#cancelHeartbeat();
    if (this.#closed) return;
    this.#closed = true;
    await this.#turn;
    this.#store.close();
  }

  /** Compares, brings open intents into effect, and says how things stand. */
  async pass(): Promise<Report> {
    return await this.#inTurn(async () => {
      const summary = await this.#summary();
      if (summary === null) return await this.#report(null);
      const refused: { key: string; code: string }[] = [];
      for (const intent of this.#store.openIntents()) {
        try {
          await this.#settle(intent, summary);
        } catch (failure) {
          if (!(failure instanceof ChangeRefused)) throw failure;
          refused.push({ key: intent.key, code: failure.code });
        }
      }
      return await this.#report(await this.#summary(), refused);
    });
  }

  /**
   * Wants `value` and brings it into effect. Resolves with the setting as it stands: `in_effect`, or `pending`
   * when the host did not do it now and it will be tried again. Errors: `ChangeRefused`; `TypeError` for a key or
   * value that is none, before anything is recorded.
   */
  async set<K extends SettingKey>(key: K, value: SettingValues[K]): Promise<SettingReport> {
    const setting = settingOf(key);
    const wanted = setting.parse(value);
    return await this.#inTurn(() => this.#change(setting, wanted));
  }

  /** Brings what is wanted into effect again, after drift. Errors as `set`. */
  async fix(key: SettingKey): Promise<SettingReport> {
    return await this.#inTurn(() => this.#change(settingOf(key), this.#wanted(key)));
  }

  /** Wants what the host has, after drift. Throws `TypeError` when that is nothing that can be wanted. */
  async adopt(key: SettingKey): Promise<SettingReport> {
    return await this.#inTurn(async () => {
      const setting = settingOf(key);
      this.#wanted(key);
      const summary = await this.#host.call("stateSummary");
      const value = setting.adopt(setting.actual(summary));
      if (value === undefined) throw new TypeError("the host has nothing that could be wanted");
      this.#store.adopt(key, value, this.#nowMs());
      return this.#told(summary, key);
    });
  }

  /** Wants nothing of it any more; the host keeps what it has. */
  async forget(key: SettingKey): Promise<void> {
    await this.#inTurn(async () => this.#store.forget(settingOf(key).key, this.#nowMs()));
  }

  /**
   * Asks for a job, once. The request is not kept: it can hold a credential. When the answer is lost the operation
   * stays in the report as `interrupted`, and only the caller can decide what comes next.
   */
  async begin<K extends OperationKind>(kind: K, body: RouteBodyInput<K>): Promise<JobView> {
    return await this.#inTurn(async () => {
      const id = `reconciler:${randomUUID()}`;
      this.#store.recordOperation(id, kind, this.#nowMs());
      try {
        // The routes that start a job all take these two, and answer a job.
        const rest = [{ body, idempotencyKey: id }] as unknown as RouteArguments<K>;
        const job = (await this.#host.call(kind, ...rest)) as JobView;
        this.#store.startedOperation(id, job.job_id);
        return job;
      } catch (failure) {
        const { code, begun } = failureOf(failure);
        if (!begun) {
          this.#store.endedOperation(id, code);
          this.#store.closeOperation(id, this.#nowMs());
        }
        throw failure;
      }
    });
  }

  /** Takes an operation that has ended, or was interrupted, out of the report. */
  async acknowledge(id: string): Promise<void> {
    await this.#inTurn(async () => this.#store.closeOperation(id, this.#nowMs()));
  }

  #beat(): void {
    if (this.#closed) return;
    this.#cancelHeartbeat = this.#timers.after(HEARTBEAT_MS, () => {
      void this.pass().then(
        () => this.#beat(),
        () => this.#beat(),
      );
    });
  }

  /** After everything that was asked before. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) throw new Error("the reconciler is closed");
    const mine = this.#turn.then(work);
    this.#turn = mine.then(
      () => {},
      () => {},
    );
    return await mine;
  }

  async #change(setting: Setting, wanted: unknown): Promise<SettingReport> {
    const intent = this.#store.intend(setting.key, wanted, this.#nowMs());
    const summary = await this.#settle(intent, null);
    return this.#told(summary, setting.key);
  }

  /**
   * Brings an open intent into effect and verifies it. `summary`: what the host had when it was asked, if it was.
   * Resolves with what it had last; null when it could not be asked. Errors: `ChangeRefused`.
   */
  async #settle(intent: Intent, summary: StateSummary | null): Promise<StateSummary | null> {
    const setting = settingOf(intent.key);
    const isInEffect = (actual: StateSummary): boolean =>
      setting.matches(intent.value, setting.actual(actual));
    // The change of an earlier life may have arrived.
    if (summary !== null && isInEffect(summary)) {
      this.#store.verified(intent.id, this.#nowMs());
      return summary;
    }
    this.#store.attempting(intent.id);
    try {
      await setting.apply(this.#host, intent.value);
    } catch (failure) {
      const { code, final } = failureOf(failure);
      if (final) {
        this.#store.refused(intent, code, this.#nowMs());
        throw new ChangeRefused(code, failure);
      }
      this.#store.failed(intent.id, code);
      return summary;
    }
    const after = await this.#summary();
    if (after === null) this.#store.failed(intent.id, "unverified");
    else if (isInEffect(after)) this.#store.verified(intent.id, this.#nowMs());
    else this.#store.failed(intent.id, "not_in_effect");
    return after;
  }

  async #summary(): Promise<StateSummary | null> {
    try {
      return await this.#host.call("stateSummary");
    } catch {
      return null;
    }
  }

  #wanted(key: string): unknown {
    const desired = this.#store.desired();
    if (!desired.has(key)) throw new TypeError("nothing is wanted under this key");
    return desired.get(key);
  }

  async #report(summary: StateSummary | null, refused: Report["refused"] = []): Promise<Report> {
    const open = new Map(this.#store.openIntents().map((intent) => [intent.key, intent]));
    const settings = [...this.#store.desired()].map(([key, wanted]) =>
      settingReport(settingOf(key), wanted, open.get(key), summary),
    );
    const operations = await Promise.all(
      this.#store.openOperations().map((row) => this.#operation(row)),
    );
    const reachable = summary !== null;
    const report = { takenMs: this.#nowMs(), reachable, settings, refused, operations };
    this.#onReport(report);
    return report;
  }

  /** One setting out of a report that is told to whoever listens. */
  async #told(summary: StateSummary | null, key: string): Promise<SettingReport> {
    const { settings } = await this.#report(summary);
    const found = settings.find((setting) => setting.key === key);
    if (found === undefined) throw new Error("a setting that was just wanted is gone");
    return found;
  }

  async #operation({ end, ...row }: OperationRow): Promise<OperationReport> {
    if (row.jobId === null) return { ...row, state: "interrupted" };
    if (end !== null) return { ...row, state: jobStatus.parse(end) };
    try {
      const job = await this.#host.call("jobGet", { params: { id: row.jobId } });
      if (hasEnded(job)) this.#store.endedOperation(row.id, job.status);
      return { ...row, state: job.status };
    } catch (failure) {
      return { ...row, state: failureOf(failure).final ? "interrupted" : "unknown" };
    }
  }
}

function settingReport(
  setting: Setting,
  wanted: unknown,
  intent: Intent | undefined,
  summary: StateSummary | null,
): SettingReport {
  const { key } = setting;
  const actual = summary === null ? null : setting.actual(summary);
  const { attempts = 0, failure = null } = intent ?? {};
  const seen = setting.matches(wanted, actual) ? "in_effect" : "drift";
  const state = intent !== undefined ? "pending" : summary === null ? "unknown" : seen;
  return { key, wanted, actual, state, attempts, failure };
}
