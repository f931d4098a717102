/**
 * Owns the question whether a file is still as a caller saw it (`expectedModifiedAtMs`).
 *
 * 1. On the wire a revision is the modification time in ms. Inside it is exact: which object, its size, and
 *    modification and change time in ns, as they were when that ms was last told of that path. So what
 *    changes within one ms, or has its time put back, or is another file with the same time, is a conflict
 *    for whoever was told before.
 *    A request says no more than the ms, and not whose it is: once anybody was told of the change, that same
 *    ms stands for it in everybody's request. Our own writes always take another ms.
 * 2. What is remembered is bounded, and gone with the service; of what is not remembered the ms decide.
 */
import type { BigIntStats } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";

/** Some MiB at most, with the longest paths. */
const MOST_REMEMBERED = 4_096;
const NS_IN_MS = 1_000_000n;

type Seen = Pick<BigIntStats, "dev" | "ino" | "size" | "mtimeNs" | "ctimeNs">;

/**
 * Unix ms, nanoseconds cut off towards the past. A time beyond what an answer can tell exactly (285,000
 * years) reads as the last that it can.
 */
export function modifiedMs({ mtimeNs }: Pick<BigIntStats, "mtimeNs">): number {
  const cut = mtimeNs / NS_IN_MS;
  return tellable(cut * NS_IN_MS > mtimeNs ? cut - 1n : cut);
}

/** The nearest integer that JSON's readers take exactly: one absurd file must not spoil a whole listing. */
export function tellable(value: bigint): number {
  const most = BigInt(Number.MAX_SAFE_INTEGER);
  if (value > most) return Number.MAX_SAFE_INTEGER;
  return value < -most ? -Number.MAX_SAFE_INTEGER : Number(value);
}

export class Revisions {
  readonly #told = new Map<string, { readonly ms: number; readonly exact: string }>();

  /** A caller is told of this revision. `path` is canonical. */
  tell(path: string, seen: Seen): void {
    // What was told last is forgotten last.
    this.#told.delete(path);
    this.#told.set(path, { ms: modifiedMs(seen), exact: exactly(seen) });
    if (this.#told.size > MOST_REMEMBERED) {
      for (const oldest of this.#told.keys()) {
        this.#told.delete(oldest);
        break;
      }
    }
  }

  /** Another object bears that path now: the ms decide. */
  forget(path: string): void {
    this.#told.delete(path);
  }

  /** Throws `revision_conflict` unless an existing file is as the caller was told. */
  demand(path: string, seen: Seen, expectedModifiedAtMs: number): void {
    const told = this.#told.get(path);
    const isAsTold = told?.ms !== expectedModifiedAtMs || told.exact === exactly(seen);
    if (expectedModifiedAtMs !== modifiedMs(seen) || !isAsTold)
      throw new LemonError("revision_conflict");
  }
}

function exactly({ dev, ino, size, mtimeNs, ctimeNs }: Seen): string {
  return `${dev}.${ino}.${size}.${mtimeNs}.${ctimeNs}`;
}
