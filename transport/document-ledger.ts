/**
 * Owns what the one writer of a bucket knows of it: every document as it stands in the store, and which of
 * them are in doubt. Not concurrent: its actor runs one change at a time.
 *
 * 1. What it shows is durable, and only that.
 * 2. A write that may have happened leaves its document in doubt. It is settled before the next change of
 *    it, and before anything that needs to know all of them, by writing the same again: whichever of
 *    the two comes first, the other can not land any more, however late.
 */
import type { CancelTimer, Clock } from "../host/clock.ts";
import { type ErrorCode, LemonError } from "../protocol/errors.ts";
import type { Document, Documents } from "./documents.ts";

export interface DocumentLedgerOptions<K extends string, T> {
  readonly documents: Documents<T>;
  readonly keyOf: (value: T) => K;
  /** What a value is found by besides its key: hashes that no other value has. */
  readonly tokensOf: (value: T) => readonly string[];
  /** What a change of a document that is not there is refused with. */
  readonly missing: ErrorCode;
  /** This is so from now on. */
  readonly onKept?: (value: T) => void;
  readonly onForgotten?: (key: K) => void;
  /** There is something to `settle`. */
  readonly onDoubt: () => void;
  readonly onSettled?: (key: K) => void;
}

export class DocumentLedger<K extends string, T> {
  readonly #options: DocumentLedgerOptions<K, T>;
  readonly #documents = new Map<K, Document<T>>();
  /** Hash of every token in a value → its key. */
  readonly #tokens = new Map<string, K>();
  /** How each document in doubt is settled. */
  readonly #inDoubt = new Map<K, () => Promise<void>>();

  constructor(options: DocumentLedgerOptions<K, T>) {
    this.#options = options;
  }

  /** Called once, first. */
  async load(): Promise<void> {
    for (const document of await this.#options.documents.list()) this.#keep(document);
  }

  values(): readonly T[] {
    return [...this.#documents.values()].map(({ value }) => value);
  }

  find(key: K): T | null {
    return this.#documents.get(key)?.value ?? null;
  }

  /** The value that has this token, as it stands; `isInDoubt` says whether it may not do so any more. */
  holder(tokenHash: string): T | null {
    const key = this.#tokens.get(tokenHash);
    return key === undefined ? null : this.find(key);
  }

  isInDoubt(key: K): boolean {
    return this.#inDoubt.has(key);
  }

  /** Throws when the store still gives no clear answer. */
  async settle(): Promise<void> {
    for (const key of [...this.#inDoubt.keys()]) await this.settleOne(key);
  }

  async settleOne(key: K): Promise<void> {
    const again = this.#inDoubt.get(key);
    if (again === undefined) return;
    try {
      await again();
    } catch (error) {
      if (!(error instanceof LemonError) || error.code !== "revision_conflict") throw error;
      // The first attempt landed after all, or somebody else wrote: either way it is decided.
      await this.#read(key);
    }
    this.#inDoubt.delete(key);
    this.#options.onSettled?.(key);
  }

  /** As `holder`, with nothing in doubt that matters. */
  async settledHolder(tokenHash: string): Promise<T | null> {
    const key = this.#tokens.get(tokenHash);
    if (key === undefined) await this.settle();
    else await this.settleOne(key);
    return this.holder(tokenHash);
  }

  async create(value: T): Promise<T> {
    const key = this.#options.keyOf(value);
    await this.settleOne(key);
    await this.#write(key, async () => {
      this.#keep(await this.#options.documents.create(key, value));
    });
    return value;
  }

  /** Writes what `change` makes of the value; nothing when it makes the very same one. Throws `missing`. */
  async change(key: K, change: (value: T) => T): Promise<T> {
    await this.settleOne(key);
    const document = this.#documents.get(key);
    if (document === undefined) throw new LemonError(this.#options.missing);
    const next = change(document.value);
    if (next !== document.value) {
      await this.#write(key, async () => {
        this.#keep(await this.#options.documents.update(document, next));
      });
    }
    return next;
  }

  /** False when there was none. */
  async delete(key: K): Promise<boolean> {
    await this.settleOne(key);
    const document = this.#documents.get(key);
    if (document === undefined) return false;
    await this.#write(key, async () => {
      await this.#options.documents.delete(document);
      this.#forget(key);
    });
    return true;
  }

  async #write(key: K, write: () => Promise<void>): Promise<void> {
    try {
      await write();
    } catch (error) {
      if (!(error instanceof LemonError)) throw error;
      if (error.mutationMayHaveApplied) this.#doubt(key, write);
      else if (error.code === "revision_conflict") this.#doubt(key, () => this.#read(key));
      throw error;
    }
  }

  #doubt(key: K, settle: () => Promise<void>): void {
    this.#inDoubt.set(key, settle);
    this.#options.onDoubt();
  }

  async #read(key: K): Promise<void> {
    const document = await this.#options.documents.get(key);
    if (document === null) this.#forget(key);
    else this.#keep(document);
  }

  #keep(document: Document<T>): void {
    const { keyOf, tokensOf, onKept } = this.#options;
    const key = keyOf(document.value);
    this.#forgetTokens(key);
    this.#documents.set(key, document);
    for (const hash of tokensOf(document.value)) this.#tokens.set(hash, key);
    onKept?.(document.value);
  }

  #forget(key: K): void {
    this.#forgetTokens(key);
    this.#documents.delete(key);
    this.#options.onForgotten?.(key);
  }

  #forgetTokens(key: K): void {
    const known = this.#documents.get(key);
    if (known === undefined) return;
    for (const hash of this.#options.tokensOf(known.value)) this.#tokens.delete(hash);
  }
}

/** How long the store is left alone after a write without a clear answer, in ms. */
const SETTLE_AFTER_MS = 1_000;

/**
 * For `onDoubt`: has what is in doubt settled a moment later, so that it does not wait for somebody to need
 * it; what is shown of it may be old. `settle` asks the ledger's own actor, and never rejects.
 */
export function settlingSoon(
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
  settle: () => Promise<unknown>,
): () => void {
  let cancel: CancelTimer | null = null;
  signal.addEventListener("abort", () => cancel?.());
  return () => {
    cancel ??= clock.after(SETTLE_AFTER_MS, () => {
      cancel = null;
      void settle();
    });
  };
}
