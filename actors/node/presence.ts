/**
 * Owns whether a node answers. "Online" is an answer that came a moment ago, never a memory.
 *
 * 1. Offline within 7 s of the last proof of life; at once when the hub or a call proves that nobody
 *    is there.
 * 2. "Unknown" while the controller itself can not ask: it has no answer, and no refusal either.
 * 3. After `expect` the next answer makes it online, within a tenth of a second of being possible.
 * 4. What an earlier worker life answers, or fails to, says nothing about the present one.
 * 5. Whoever went silent is told of once, after it is offline: what it was asked is not answered in time.
 */
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodePing } from "../../protocol/node-link.ts";

export type Status = "online" | "offline" | "unknown";

/** How often a node with a link is asked, in ms. */
export const PING_EVERY_MS = 2_000;
/** How often just after a link was opened or seen. */
const PING_EAGER_EVERY_MS = 100;
const EAGER_FOR_MS = 5_000;
/** How often while the controller itself can not ask. */
const PING_UNABLE_EVERY_MS = 500;
/** How often without a link: the hub tells of a new one, so this is for what it did not tell. */
const PING_ABSENT_EVERY_MS = 10_000;
export const PING_DEADLINE_MS = 5_000;
/** The contract's 8 s (architecture.md, "The node link"), with room for a busy event loop. */
export const SILENCE_MS = 7_000;
const PINGS_IN_FLIGHT = 3;

export interface PresenceOptions {
  readonly clock: Clock;
  /** Asks the present worker life. Rejects with a `LemonError`. */
  readonly ping: () => Promise<NodePing>;
  /** The status changed, or fresh facts came. */
  readonly onChange: (status: Status, ping: NodePing | null) => void;
  /** It has been silent for too long: it is offline, though nothing proves that nobody is there. */
  readonly onSilence: () => void;
}

export class Presence {
  readonly #options: PresenceOptions;
  #status: Status = "offline";
  #facts: NodePing | null = null;
  /** Counts the worker lives watched; null while there is none. */
  #watch: number | null = null;
  #watches = 0;
  #inFlight = 0;
  #provenMs = 0;
  /** Nobody is there: proven, not just silent. */
  #absent = false;
  #eagerUntilMs = 0;
  /** Who waits for the next answer. */
  readonly #proving = new Set<() => void>();
  #cancelPing: CancelTimer = () => {};
  #cancelSilence: CancelTimer = () => {};

  constructor(options: PresenceOptions) {
    this.#options = options;
  }

  get status(): Status {
    return this.#status;
  }

  /** A worker life may serve from now on; `status` is what is known of it. */
  begin(status: "unknown" | "offline"): void {
    this.end();
    this.#watches += 1;
    this.#watch = this.#watches;
    this.#inFlight = 0;
    this.#absent = false;
    this.#set(status, null);
    this.#listen(this.#options.clock.monotonicMs());
    this.expect();
  }

  /** No worker life may serve. */
  end(): void {
    this.#watch = null;
    this.#cancelPing();
    this.#cancelSilence();
    this.#set("offline", null);
    this.#proved();
  }

  /** A link is about to be there, or is: asks at once, and often. */
  expect(): void {
    if (this.#watch === null) return;
    this.#eagerUntilMs = this.#options.clock.monotonicMs() + EAGER_FOR_MS;
    this.#ping(this.#watch);
  }

  /** Asks at once and often; resolves with the status when an answer has come, or after `withinMs`. */
  async prove(withinMs: number): Promise<Status> {
    if (this.#watch === null) return this.#status;
    const proven = Promise.withResolvers<void>();
    this.#proving.add(proven.resolve);
    const cancel = this.#options.clock.after(withinMs, proven.resolve);
    this.expect();
    await proven.promise;
    cancel();
    this.#proving.delete(proven.resolve);
    return this.#status;
  }

  /** Names the worker life that is watched now; null while there is none. */
  get watch(): number | null {
    return this.#watch;
  }

  /**
   * The life of that `watch` answered a call. One that was offline is asked at once: only a ping tells what
   * else is true of it.
   */
  answered(watch: number | null): void {
    if (watch === null || watch !== this.#watch) return;
    if (this.#status === "online") this.#listen(this.#options.clock.monotonicMs());
    else this.expect();
  }

  /** A call to the life of that `watch` found nobody. One that is offline already was not asked. */
  refused(watch: number | null): void {
    if (watch === this.#watch && this.#status !== "offline") this.gone();
  }

  /** It is certain that nobody is there. */
  gone(): void {
    if (this.#watch === null) return;
    this.#absent = true;
    this.#cancelSilence();
    this.#set("offline", null);
  }

  #ping(watch: number): void {
    const { clock } = this.#options;
    this.#cancelPing();
    this.#cancelPing = clock.after(this.#intervalMs(), () => this.#ping(watch));
    if (this.#inFlight < PINGS_IN_FLIGHT) void this.#ask(watch);
  }

  #ask(watch: number): Promise<void> {
    const { clock, ping } = this.#options;
    this.#inFlight += 1;
    const sentMs = clock.monotonicMs();
    return ping().then(
      (facts) => this.#settled(watch, () => this.#heard(sentMs, facts)),
      (error: unknown) => this.#settled(watch, () => this.#failed(error)),
    );
  }

  #settled(watch: number, then: () => void): void {
    if (this.#watch !== watch) return;
    this.#inFlight -= 1;
    then();
  }

  #heard(sentMs: number, facts: NodePing): void {
    this.#absent = false;
    this.#eagerUntilMs = 0;
    this.#listen(sentMs);
    this.#set("online", facts);
    this.#proved();
  }

  #proved(): void {
    for (const resolve of this.#proving) resolve();
  }

  #failed(error: unknown): void {
    const code = error instanceof LemonError ? error.code : null;
    if (code === "node_offline") {
      this.gone();
    } else if (code === "unavailable") {
      this.#cancelSilence();
      this.#set("unknown", null);
    }
    // Anything else is no answer, and no proof either: silence decides.
  }

  /** Waits for the next proof of life; the last one was true at `provenMs`. */
  #listen(provenMs: number): void {
    const { clock } = this.#options;
    this.#provenMs = Math.max(this.#provenMs, provenMs);
    this.#cancelSilence();
    const leftMs = this.#provenMs + SILENCE_MS - clock.monotonicMs();
    this.#cancelSilence = clock.after(leftMs, () => this.#silent());
  }

  #silent(): void {
    this.#set("offline", null);
    this.#options.onSilence();
  }

  #intervalMs(): number {
    if (this.#status === "online") return PING_EVERY_MS;
    if (this.#options.clock.monotonicMs() < this.#eagerUntilMs) return PING_EAGER_EVERY_MS;
    if (this.#status === "unknown") return PING_UNABLE_EVERY_MS;
    return this.#absent ? PING_ABSENT_EVERY_MS : PING_EVERY_MS;
  }

  #set(status: Status, facts: NodePing | null): void {
    if (this.#status === status && this.#facts === null && facts === null) return;
    this.#status = status;
    this.#facts = facts;
    this.#options.onChange(status, facts);
  }
}
