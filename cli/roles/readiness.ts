/**
 * Owns whether the control plane can do its work now: its hub is connected, its documents answer, and it
 * was not asked to end.
 *
 * 1. What happens moves it; whoever asks reads what is known, and causes nothing.
 * 2. Documents count as unreadable from the first operation without an answer, and after the hub was
 *    away, until a read has succeeded. Only meanwhile is one tried again and again: nobody is sent here,
 *    so nobody else would.
 */
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { Document, Documents } from "../../transport/documents.ts";

export interface ReadinessOptions<T> {
  /** Those that are read and written; nobody but the readiness uses them by themselves. */
  readonly documents: Documents<T>;
  readonly clock: Clock;
  /** Aborted when the role is asked to end. */
  readonly asked: AbortSignal;
}

export type MissingPart = "hub" | "documents" | "stopping";

/** The failures that say that nobody answers; the others are answers. */
const SILENCE: ReadonlySet<string> = new Set(["unavailable", "timeout", "link_lost"]);
const TRY_AGAIN_MS = 1_000;
/** Of no document: a read of it that finds nothing has succeeded. */
const ABSENT_KEY = "readiness";

export class Readiness<T> {
  /** The documents as everybody else uses them. */
  readonly documents: Documents<T>;
  readonly #own: Documents<T>;
  readonly #clock: Clock;
  readonly #missing = new Set<MissingPart>();
  #probing = false;
  #cancelProbe: CancelTimer = () => {};

  constructor({ documents, clock, asked }: ReadinessOptions<T>) {
    this.#own = documents;
    this.#clock = clock;
    this.documents = new WatchedDocuments(documents, (answered) => this.#heard(answered));
    const stopping = (): void => {
      this.#missing.add("stopping");
      this.#cancelProbe();
    };
    if (asked.aborted) stopping();
    else asked.addEventListener("abort", stopping, { once: true });
  }

  /** Empty when it is ready. */
  readonly missing = (): readonly MissingPart[] => [...this.#missing];

  /** The hub's connection is there, or is not. */
  hub(connected: boolean): void {
    if (!connected) {
      this.#missing.add("hub");
      return;
    }
    this.#missing.delete("hub");
    this.#heard(false);
  }

  #heard(answered: boolean): void {
    if (answered) {
      this.#missing.delete("documents");
      this.#cancelProbe();
    } else {
      this.#missing.add("documents");
      void this.#probe();
    }
  }

  async #probe(): Promise<void> {
    if (this.#probing || this.#missing.has("stopping")) return;
    this.#probing = true;
    this.#cancelProbe();
    const answered = await isAnswered(() => this.#own.get(ABSENT_KEY));
    this.#probing = false;
    if (answered) this.#heard(true);
    else if (this.#missing.has("documents") && !this.#missing.has("stopping")) {
      this.#cancelProbe = this.#clock.after(TRY_AGAIN_MS, () => void this.#probe());
    }
  }
}

async function isAnswered(operation: () => Promise<unknown>): Promise<boolean> {
  try {
    await operation();
    return true;
  } catch (failure) {
    return !isSilence(failure);
  }
}

function isSilence(failure: unknown): boolean {
  return failure instanceof LemonError && SILENCE.has(failure.code);
}

class WatchedDocuments<T> implements Documents<T> {
  readonly #documents: Documents<T>;
  readonly #heard: (answered: boolean) => void;

  constructor(documents: Documents<T>, heard: (answered: boolean) => void) {
    this.#documents = documents;
    this.#heard = heard;
  }

  get(key: string): Promise<Document<T> | null> {
    return this.#watched(this.#documents.get(key));
  }

  list(): Promise<Document<T>[]> {
    return this.#watched(this.#documents.list());
  }

  create(key: string, value: T): Promise<Document<T>> {
    return this.#watched(this.#documents.create(key, value));
  }

  update(document: Document<T>, value: T): Promise<Document<T>> {
    return this.#watched(this.#documents.update(document, value));
  }

  delete(document: Document<T>): Promise<void> {
    return this.#watched(this.#documents.delete(document));
  }

  async #watched<R>(operation: Promise<R>): Promise<R> {
    try {
      const result = await operation;
      this.#heard(true);
      return result;
    } catch (failure) {
      this.#heard(!isSilence(failure));
      throw failure;
    }
  }
}
