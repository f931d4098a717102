/** Owns a store of documents in memory that keeps the promises of `Documents`, and breaks off where a test says. */
import { LemonError } from "../../protocol/errors.ts";
import type { Document, Documents } from "../../transport/documents.ts";

/**
 * What the next write meets: `refused` was not done; `lost` was done or not yet (`applied`), and its
 * answer never came. What was not yet done lands with `landGhosts`, unless something else came first.
 */
export type WriteFault =
  | { readonly kind: "refused" }
  | { readonly kind: "lost"; readonly applied: boolean };

export class MemoryDocuments<T> implements Documents<T> {
  readonly #held = new Map<string, { readonly text: string; readonly revision: number }>();
  readonly #spent = new Set<string>();
  readonly #parse: (stored: unknown) => T;
  #sequence = 0;
  readonly #ghosts: (() => void)[] = [];
  /** Met by writes, first in first out. */
  readonly writeFaults: WriteFault[] = [];
  /** While true, every read fails. */
  deaf = false;
  /** Run before each write takes effect: where a test can hold it up. */
  beforeWrite: (key: string) => Promise<void> = () => Promise.resolve();
  writes = 0;

  constructor(parse: (stored: unknown) => T) {
    this.#parse = parse;
  }

  /** Everything that is stored, as bytes would show it. */
  text(): string {
    return [...this.#held].map(([key, { text }]) => `${key}=${text}`).join("\n");
  }

  async get(key: string): Promise<Document<T> | null> {
    await Promise.resolve();
    if (this.deaf) throw new LemonError("unavailable");
    return this.#document(key);
  }

  async list(): Promise<Document<T>[]> {
    await Promise.resolve();
    if (this.deaf) throw new LemonError("unavailable");
    return [...this.#held.keys()].sort().flatMap((key) => this.#document(key) ?? []);
  }

  create(key: string, value: T): Promise<Document<T>> {
    return this.#write(key, 0, value);
  }

  update(document: Document<T>, value: T): Promise<Document<T>> {
    return this.#write(document.key, document.revision, value);
  }

  async delete(document: Document<T>): Promise<void> {
    await this.#change(document.key, document.revision, () => {
      this.#held.delete(document.key);
      this.#spent.add(document.key);
    });
  }

  async #write(key: string, replaces: number, value: T): Promise<Document<T>> {
    const text = JSON.stringify(value);
    const revision = await this.#change(key, replaces, (next) => {
      this.#held.set(key, { text, revision: next });
    });
    return { key, value, revision };
  }

  async #change(key: string, replaces: number, apply: (revision: number) => void): Promise<number> {
    await this.beforeWrite(key);
    const fault = this.writeFaults.shift();
    if (fault?.kind === "refused") throw new LemonError("unavailable");
    const land = (): number => {
      const stands = this.#held.get(key)?.revision ?? 0;
      if (stands !== replaces || (replaces === 0 && this.#spent.has(key))) {
        throw new LemonError("revision_conflict");
      }
      this.#sequence += 1;
      this.writes += 1;
      apply(this.#sequence);
      return this.#sequence;
    };
    if (fault === undefined) return land();
    if (fault.applied) land();
    else this.#ghosts.push(() => void land());
    throw new LemonError("timeout");
  }

  /** What was on its way all the time arrives now. */
  landGhosts(): void {
    for (const land of this.#ghosts.splice(0)) {
      try {
        land();
      } catch {
        // Something else came first.
      }
    }
  }

  #document(key: string): Document<T> | null {
    const held = this.#held.get(key);
    if (held === undefined) return null;
    return { key, value: this.#parse(JSON.parse(held.text)), revision: held.revision };
  }
}
