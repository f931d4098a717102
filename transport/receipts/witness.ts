/**
 * Owns the witness file: our own record, beside the store, of every revision that may be acknowledged.
 *
 * 1. `append` resolves only after its slots are synced. Entries that wait meanwhile share the next
 *    sync (group commit), in the order in which they came.
 * 2. Room is written ahead and synced before a revision is put into the stream, so that a full disk
 *    refuses an admission before it happens, not between the stream and the witness.
 * 3. After a write that failed other than for want of space nothing more is appended: what the disk
 *    holds is then known to nobody.
 */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { writeSecureFile } from "../../host/secure-file.ts";
import { errnoOf, systemFailure } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import {
  encodeGroup,
  encodeHeader,
  LONGEST_GROUP,
  parseWitness,
  SLOT_BYTES,
  type WitnessEntry,
} from "./witness-format.ts";

/** How much is written ahead at a time: 1,023 slots behind the first header. */
const AHEAD_BYTES = 64 * 1024;
/** Slots that are kept free: as many puts may be under way, and a verification's findings come on top. */
const SLOTS_IN_RESERVE = 4 * LONGEST_GROUP;

interface Waiting {
  readonly entry: WitnessEntry;
  readonly resolve: () => void;
  readonly reject: (failure: LemonError) => void;
}

/** Makes an empty witness for a new store, whole or not at all. */
export async function createWitness(path: string, storeId: string, bucket: string): Promise<void> {
  const file = Buffer.alloc(AHEAD_BYTES);
  encodeHeader(storeId, bucket).copy(file);
  await writeSecureFile(path, file);
}

export interface OpenedWitness {
  readonly witness: Witness;
  readonly entries: readonly WitnessEntry[];
}

/** Opens and checks a witness. Null when there is none; `damaged` when it can not be trusted. */
export async function openWitness(
  path: string,
  bucket: string,
): Promise<OpenedWitness | null | "damaged"> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (failure) {
    const errno = errnoOf(failure);
    if (errno === "ENOENT") return null;
    if (errno === "ELOOP" || errno === "EISDIR" || errno === "ENXIO") return "damaged";
    throw systemFailure(failure);
  }
  try {
    const bytes = (await file.stat()).isFile() ? await file.readFile() : null;
    const parsed = bytes === null ? null : parseWitness(bytes, bucket);
    if (bytes === null || parsed === null) {
      await file.close();
      return "damaged";
    }
    const { storeId, entries } = parsed;
    const end = (entries.length + 1) * SLOT_BYTES;
    if (parsed.torn) {
      await file.truncate(end);
      await file.datasync();
    }
    const slots = Math.floor((parsed.torn ? end : bytes.length) / SLOT_BYTES) - 1;
    return { witness: new Witness(file, storeId, entries.length, slots), entries };
  } catch (failure) {
    await file.close();
    throw systemFailure(failure);
  }
}

export class Witness {
  readonly storeId: string;
  readonly #file: FileHandle;
  /** Slots written and synced. */
  #count: number;
  /** Slots that the file has room for. */
  #slots: number;
  #waiting: Waiting[] = [];
  #lastGroup = 0;
  #writing: Promise<void> | null = null;
  #growing: Promise<void> | null = null;
  /** The end of the last write that was asked for: growth and groups must not cross. */
  #lastWrite: Promise<void> = Promise.resolve();
  #failed = false;

  constructor(file: FileHandle, storeId: string, count: number, slots: number) {
    this.#file = file;
    this.storeId = storeId;
    this.#count = count;
    this.#slots = slots;
  }

  /** Number of the last entry; it only grows. */
  get count(): number {
    return this.#count;
  }

  /** Whether a write failed for good: the store can not acknowledge anything until it is opened anew. */
  get failed(): boolean {
    return this.#failed;
  }

  /** Makes sure of room for what may be under way. Errors: `no_space`, `receipt_store_unavailable`. */
  async reserve(): Promise<void> {
    if (this.#slots - this.#count - this.#waiting.length >= SLOTS_IN_RESERVE) return;
    this.#growing ??= this.#grow().finally(() => {
      this.#growing = null;
    });
    await this.#growing;
  }

  /** Errors: `receipt_store_unavailable`, `no_space` (a file system that copies on write). */
  append(entry: WitnessEntry): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push({ entry, resolve, reject });
    this.#writing ??= this.#writeAll();
    return promise;
  }

  /** Waits for what was appended, then closes the file. */
  async close(): Promise<void> {
    while (this.#writing !== null) await this.#writing;
    await this.#growing?.catch(() => {});
    await this.#file.close();
  }

  async #writeAll(): Promise<void> {
    // Where acknowledgements come several in a packet, all of one turn are to share the first sync.
    if (this.#lastGroup > 1) await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0, LONGEST_GROUP);
      this.#lastGroup = group.length;
      try {
        await this.#write(group.map(({ entry }) => entry));
        for (const { resolve } of group) resolve();
      } catch (failure) {
        const refusal = this.#refusal(failure);
        for (const { reject } of group) reject(refusal);
      }
    }
    this.#writing = null;
  }

  async #write(entries: readonly WitnessEntry[]): Promise<void> {
    if (this.#failed) throw new LemonError("receipt_store_unavailable");
    await this.#alone(async () => {
      const bytes = encodeGroup(this.storeId, this.#count, entries);
      await this.#writeSynced(bytes, (this.#count + 1) * SLOT_BYTES);
      this.#count += entries.length;
      this.#slots = Math.max(this.#slots, this.#count);
    });
  }

  async #grow(): Promise<void> {
    try {
      await this.#alone(async () => {
        await this.#writeSynced(Buffer.alloc(AHEAD_BYTES), (this.#slots + 1) * SLOT_BYTES);
        this.#slots += AHEAD_BYTES / SLOT_BYTES;
      });
    } catch (failure) {
      throw this.#refusal(failure);
    }
  }

  #alone(write: () => Promise<void>): Promise<void> {
    const written = this.#lastWrite.then(write);
    this.#lastWrite = written.catch(() => {});
    return written;
  }

  async #writeSynced(bytes: Buffer, position: number): Promise<void> {
    try {
      for (let done = 0; done < bytes.length; ) {
        const left = bytes.length - done;
        done += (await this.#file.write(bytes, done, left, position + done)).bytesWritten;
      }
      await this.#file.datasync();
    } catch (failure) {
      // Of a full disk it is known that nothing was written; of anything else nobody knows what was.
      const errno = errnoOf(failure);
      if (errno !== "ENOSPC" && errno !== "EDQUOT") this.#failed = true;
      throw failure;
    }
  }

  #refusal(failure: unknown): LemonError {
    const refused = systemFailure(failure);
    if (refused.code === "no_space" || refused.code === "receipt_store_unavailable") return refused;
    return new LemonError("receipt_store_unavailable", { cause: failure });
  }
}
