/**
 * Owns the tokens that stand: which preview each is for, and how much all of them hold.
 *
 * 1. A token is known by its hash alone.
 * 2. What is retained is bounded in previews, entries and bytes; a new preview beyond that is refused, and
 *    none that somebody may be about to confirm is dropped for it.
 */
import { createHash } from "node:crypto";
import { LemonError } from "../../protocol/errors.ts";
import { FILE_BOUNDS } from "../../protocol/files.ts";
import type { ActorRef, Death, SupervisorRef } from "../../supervision/actor.ts";
import { type Previewed, type PreviewProtocol, previewActor } from "./preview.ts";

/** Of an actor's context. */
type Watch = (other: ActorRef<PreviewProtocol>, onDeath: (death: Death) => void) => unknown;

interface Standing {
  readonly actor: ActorRef<PreviewProtocol>;
  readonly entries: number;
  readonly bytes: number;
}

export interface PreviewsOptions {
  /** The previews' own supervisor. */
  readonly place: Promise<SupervisorRef>;
  readonly watch: Watch;
  /** 256 random bits. */
  readonly token: () => string;
}

const TAKE = { deadlineMs: 5_000 } as const;

export class Previews {
  readonly #options: PreviewsOptions;
  readonly #standing = new Map<string, Standing>();
  #serial = 0;
  /** Counts the times that all became void. */
  #era = 0;

  constructor(options: PreviewsOptions) {
    this.#options = options;
  }

  /** Throws `filesystem_busy` when not even an empty one finds room. */
  refuseWhenFull(): void {
    if (this.#standing.size >= FILE_BOUNDS.previews) throw new LemonError("filesystem_busy");
  }

  /** Retains a preview; answers its token. Errors: `filesystem_busy`. */
  async keep(previewed: Previewed, entries: number): Promise<string> {
    const era = this.#era;
    const bytes = previewed.candidates.length;
    this.refuseWhenFull();
    let [allEntries, allBytes] = [entries, bytes];
    for (const standing of this.#standing.values()) {
      allEntries += standing.entries;
      allBytes += standing.bytes;
    }
    if (allEntries > FILE_BOUNDS.previewedEntries || allBytes > FILE_BOUNDS.previewBytes) {
      throw new LemonError("filesystem_busy");
    }
    this.#serial += 1;
    const spec = previewActor(`preview-${this.#serial}`, previewed);
    const actor = await (await this.#options.place).startActor(spec);
    if (era !== this.#era) {
      void actor.stop();
      throw new LemonError("filesystem_busy");
    }
    const token = this.#options.token();
    const key = keyOf(token);
    this.#standing.set(key, { actor, entries, bytes });
    this.#options.watch(actor, () => void this.#standing.delete(key));
    return token;
  }

  /** Spends a token. Errors: `invalid_confirmation`, `invalid_confirmation_token`. */
  async take(token: string, path: string, confirm: string): Promise<Uint8Array> {
    const standing = this.#standing.get(keyOf(token));
    if (standing === undefined) throw new LemonError("invalid_confirmation_token");
    try {
      return await standing.actor.ask("take", { path, confirm }, TAKE);
    } catch (error) {
      if (error instanceof LemonError && error.code === "invalid_confirmation") throw error;
      // It was spent, or its time was up, before this was taken.
      throw new LemonError("invalid_confirmation_token", { cause: error });
    }
  }

  /** All tokens are void from now on. */
  voidAll(): void {
    this.#era += 1;
    for (const { actor } of this.#standing.values()) void actor.stop();
    this.#standing.clear();
  }
}

function keyOf(token: string): string {
  return createHash("sha256").update(token).digest("base64");
}
