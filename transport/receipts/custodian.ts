/**
 * Owns the store's way back to serving, after anything: a new life of the server, a doubt, a proof
 * that did not hold, a full disk.
 *
 * 1. The store serves only after a verification that began and ended with the same life of the server;
 *    there is one verification at a time.
 * 2. It is set off by events (a connection, the state); timers exist only while something is wrong.
 * 3. A server that does not take what it should is restarted by its supervisor, asked at most once for
 *    each of its lives.
 */
import type { Logger } from "pino";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { DamageError, type Health } from "./health.ts";
import type { Link } from "./link.ts";
import { hasSpace } from "./space.ts";
import type { Verified } from "./verification.ts";

export interface CustodianParts {
  readonly health: Health;
  readonly link: Link;
  readonly clock: Clock;
  readonly log: Logger;
  /** The store's own folder: where space is looked for. */
  readonly directory: string;
  /** Compares and proves anew, for this life of the server. */
  readonly verify: (serverId: string, signal: AbortSignal) => Promise<Verified>;
  /** Told of each verification that held. */
  readonly verified: (verified: Verified) => void;
  /** Has the server with this id replaced by its supervisor; null when nobody can. */
  readonly restartServer: ((serverId: string) => Promise<unknown>) | null;
}

/** Between two attempts to verify or to prove: doubled each time. */
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 5_000;
/** Between two looks at a full disk: nothing tells of space. */
const SPACE_LOOK_MS = 1_000;
/** Verifications in a row that a connected server leaves without an answer: some 15 s in all. */
const FAILURES_BORNE = 6;

export class Custodian {
  readonly #parts: CustodianParts;
  readonly #unwatch: () => void;
  #closed = false;
  #running = false;
  /** Something changed while a verification ran. */
  #again = false;
  #retry: CancelTimer | null = null;
  #retryMs = FIRST_RETRY_MS;
  /** The life of the server with which the last verification failed. */
  #failedWith: string | null = null;
  #failures = 0;
  /** When a put was given up last with no other answered since, on the monotonic clock. */
  #silentSinceMs: number | null = null;
  #spaceLook: CancelTimer | null = null;
  /** Said so last. */
  #isFull = false;
  /** The life of the server that was last asked to be replaced. */
  #restarted: string | null = null;

  constructor(parts: CustodianParts) {
    this.#parts = parts;
    this.#unwatch = parts.health.watch(() => this.#look());
  }

  /** Verifies for the first time; the state tells what came of it. Errors: those of a verification. */
  async begin(): Promise<Verified> {
    this.#running = true;
    const verified = await this.#verify();
    this.#running = false;
    this.#look();
    return verified;
  }

  close(): void {
    this.#closed = true;
    this.#unwatch();
    this.#cancelRetry();
    this.#spaceLook?.();
  }

  /** Whoever can prove durability is there (again). */
  proverReturned(): void {
    // A verification that runs may have asked just before: it is followed by another.
    if (this.#closed || (!this.#running && this.#parts.health.state !== "unproven")) return;
    this.#cancelRetry();
    this.#attempt();
  }

  putAnswered(): void {
    this.#silentSinceMs = null;
  }

  /**
   * A put had neither answer nor effect, though the server answers reads and the disk takes more. A
   * disk that stalls does that to all that are under way; one more that was sent after they were
   * given up says that the stream is stuck.
   */
  putUnanswered(serverId: string, sentAtMs: number): void {
    if (this.#silentSinceMs !== null && sentAtMs >= this.#silentSinceMs) {
      void this.#replace(serverId);
    } else {
      this.#silentSinceMs ??= this.#parts.clock.monotonicMs();
    }
  }

  /** Does what the state calls for. */
  #look(): void {
    if (this.#closed) return;
    const { health, link } = this.#parts;
    switch (health.state) {
      case "serving":
        this.#tellFull(false);
        this.#cancelRetry();
        this.#retryMs = FIRST_RETRY_MS;
        break;
      case "verifying":
        if (link.serverId === null) {
          this.#cancelRetry();
        } else if (link.serverId !== this.#failedWith) {
          this.#cancelRetry();
          this.#attempt();
        } else {
          this.#attemptLater();
        }
        break;
      case "unproven":
        this.#tellFull(false);
        this.#attemptLater();
        break;
      case "full":
        this.#tellFull(true);
        this.#lookForSpace();
        break;
      default:
        this.#cancelRetry();
    }
  }

  /** Once when the disk turns full, and once when it is over, however often it was verified meanwhile. */
  #tellFull(full: boolean): void {
    if (this.#isFull === full) return;
    this.#isFull = full;
    const { log } = this.#parts;
    if (full)
      log.error("the disk of the receipts is full; nothing is admitted until there is space");
    else log.info("the disk of the receipts has space again");
  }

  #attemptLater(): void {
    if (this.#retry !== null || this.#running) return;
    this.#retry = this.#parts.clock.after(this.#retryMs, () => {
      this.#retry = null;
      this.#attempt();
    });
    this.#retryMs = Math.min(this.#retryMs * 2, LONGEST_RETRY_MS);
  }

  #cancelRetry(): void {
    this.#retry?.();
    this.#retry = null;
  }

  #attempt(): void {
    if (this.#running) {
      this.#again = true;
      return;
    }
    this.#running = true;
    this.#verify()
      .catch(() => {})
      .finally(() => {
        this.#running = false;
        const again = this.#again;
        this.#again = false;
        const served = this.#parts.health.state === "serving";
        if (again && !served && !this.#closed) this.#attempt();
        else this.#look();
      });
  }

  async #verify(): Promise<Verified> {
    const { health, link, verify, verified, log } = this.#parts;
    const { serverId, cut } = link;
    if (serverId === null) throw new LemonError("receipt_store_unavailable");
    try {
      const result = await verify(serverId, cut);
      if (cut.aborted) throw new LemonError("receipt_store_unavailable");
      this.#failedWith = null;
      this.#failures = 0;
      this.#silentSinceMs = null;
      const { proven, newlyLost, newlyWitnessed, newlyMissing } = result;
      if (newlyLost > 0) log.error({ revisions: newlyLost }, "acknowledged revisions were lost");
      log.info({ proven, newlyWitnessed, newlyMissing }, "receipt store verified");
      if (!this.#closed) health.verified(serverId, proven);
      verified(result);
      return result;
    } catch (failure) {
      this.#judge(failure, serverId, cut.aborted);
      throw failure;
    }
  }

  #judge(failure: unknown, serverId: string, cut: boolean): void {
    const { health, log } = this.#parts;
    const code = failure instanceof LemonError ? failure.code : "internal_error";
    if (failure instanceof DamageError) {
      log.error({ reason: failure.reason }, "receipt store is damaged");
      health.damaged(failure.reason);
      return;
    }
    // A connection that was cut meanwhile says nothing about the server.
    if (cut) return;
    log.warn({ code }, "receipt store could not be verified");
    if (code === "no_space") health.fill();
    this.#failedWith = serverId;
    this.#failures += 1;
    if (this.#failures >= FAILURES_BORNE) void this.#replace(serverId);
  }

  #lookForSpace(): void {
    if (this.#spaceLook !== null) return;
    const { clock, health, directory } = this.#parts;
    this.#spaceLook = clock.after(SPACE_LOOK_MS, async () => {
      const space = await hasSpace(directory);
      // After a failed write the stream takes nothing more in this life of its server.
      const replaced = !space || (await this.#replace(health.fullSince ?? ""));
      this.#spaceLook = null;
      if (this.#closed) return;
      if (space && replaced) health.spaceFound();
      else this.#look();
    });
  }

  /** Has that life of the server replaced. False when that was tried and failed. */
  async #replace(serverId: string): Promise<boolean> {
    const { restartServer, link, log } = this.#parts;
    if (restartServer === null || link.serverId !== serverId || this.#restarted === serverId) {
      return true;
    }
    this.#restarted = serverId;
    log.warn("asking for a restart of the server");
    try {
      await restartServer(serverId);
      return true;
    } catch {
      this.#restarted = null;
      return false;
    }
  }
}
