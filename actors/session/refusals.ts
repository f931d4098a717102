/**
 * Owns what the log says of refused `connect`s: a line for each reason now and then, with their number. So a
 * crowd of strangers can neither fill the log nor try unseen.
 */
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import { LemonError, type WireCode } from "../../protocol/errors.ts";
import { codeOf, logFrames } from "../../supervision/log.ts";
import { occasionally } from "../../supervision/occasionally.ts";

/** What a stranger can be refused for that is worth a line; the rest is a mistake in a frame. */
const TOLD: readonly WireCode[] = ["UNAUTHORIZED", "RATE_LIMITED"];

export class Refusals {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #reasons = new Map<string, () => void>();

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
  }

  count(failure: unknown): void {
    if (!(failure instanceof LemonError)) {
      this.#count("error", codeOf(failure), null);
      logFrames(this.#log, {}, failure);
    } else if (TOLD.includes(failure.wire)) {
      // Of the sentences for `unauthorized` there are a handful, and none holds anything of the peer.
      this.#count("info", failure.code, failure.wire === "UNAUTHORIZED" ? failure.message : null);
    }
  }

  #count(level: "error" | "info", code: string, reason: string | null): void {
    const key = `${code} ${reason ?? ""}`;
    let happened = this.#reasons.get(key);
    if (happened === undefined) {
      const fields = reason === null ? { code } : { code, reason };
      happened = occasionally(this.#clock, (times) => {
        this.#log[level]({ ...fields, times }, "connect refused");
      });
      this.#reasons.set(key, happened);
    }
    happened();
  }
}
