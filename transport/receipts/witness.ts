/**
 * Owns the witness file: our own record, beside the store, of every revision that may be acknowledged.
 *
 * 1. Entries reach the file in the order in which they came. `append` resolves only after its slot is
 *    synced; those who wait meanwhile share the next sync (group commit).
 * 2. What is appended for later costs no sync of its own: it goes with the next group, at the latest
 *    when the file is closed, and stays queued when that group fails for want of space.
 * 3. Room is written ahead and synced before a revision is put into the stream, so that a full disk
 *    refuses an admission before it happens, not between the stream and the witness.
 * 4. After a write that failed other than for want of space nothing more is appended: what the disk
 *    holds is then known to nobody.
 */
import { constants, write } from "node:fs";
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
/** Slots that are kept free: two for each put that may be under way, and a verification's findings. */
const SLOTS_IN_RESERVE = 4 * LONGEST_GROUP;
/**
 * On Linux a write returns when it is synced as by fdatasync (open(2), O_DSYNC): one turn of the thread
 * pool instead of two. Elsewhere (macOS) only Node's `datasync` reaches the disk itself.
 */
const SYNCED_WRITES = process.platform === "linux" ? constants.O_DSYNC : 0;

interface Queued {
  readonly entry: WitnessEntry;
  /** Null when nobody waits for it. */
  readonly synced: PromiseWithResolvers<void> | null;
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
    const { O_RDWR, O_NOFOLLOW, O_NONBLOCK } = constants;
    file = await open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | SYNCED_WRITES);
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
  readonly #queue: Queued[] = [];
  /** How many waited for the last group. */
  #shared = 0;
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

  /** Entries on disk; it only grows. */
  get count(): number {
    return this.#count;
  }

  /** Whether a write failed for good: the store can not acknowledge anything until it is opened anew. */
  get failed(): boolean {
    return this.#failed;
  }

  /** Makes sure of room for what may be under way. Errors: `no_space`, `receipt_store_unavailable`. */
  async reserve(): Promise<void> {
    if (this.#slots - this.#count - this.#queue.length >= SLOTS_IN_RESERVE) return;
    this.#growing ??= this.#grow().finally(() => {
      this.#growing = null;
    });
    await this.#growing;
  }

  /** Errors: `receipt_store_unavailable`, `no_space` (a file system that copies on write). */
  append(entry: WitnessEntry): Promise<void> {
    const synced = Promise.withResolvers<void>();
    this.#queue.push({ entry, synced });
    this.#writing ??= this.#writeAll();
    return synced.promise;
  }

  /** For what nobody waits for: should the process die before the next group, the entry is lost. */
  appendLater(entry: WitnessEntry): void {
    this.#queue.push({ entry, synced: null });
  }

  /** Writes what was appended, then closes the file. */
  async close(): Promise<void> {
    while (this.#writing !== null) await this.#writing;
    let written = true;
    while (written && this.#queue.length > 0) written = await this.#writeGroup();
    await this.#growing?.catch(() => {});
    await this.#file.close();
  }

  async #writeAll(): Promise<void> {
    // Where acknowledgements come several in a packet, all of one turn are to share the first sync.
    if (this.#shared > 1) await new Promise((resolve) => setImmediate(resolve));
    do await this.#writeGroup();
    while (this.#queue.some(isAwaited));
    this.#writing = null;
  }

  /** False when that failed: whoever waits is told, the rest stays queued. */
  async #writeGroup(): Promise<boolean> {
    const group = this.#queue.slice(0, LONGEST_GROUP);
    try {
      await this.#write(group.map(({ entry }) => entry));
      this.#queue.splice(0, group.length);
      this.#shared = group.filter(isAwaited).length;
      for (const { synced } of group) synced?.resolve();
      return true;
    } catch (failure) {
      const refusal = this.#refusal(failure);
      const queued = this.#queue.splice(0);
      this.#queue.push(...queued.filter((one) => !isAwaited(one)));
      for (const { synced } of queued) synced?.reject(refusal);
      return false;
    }
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
    let done = 0;
    try {
      while (done < bytes.length) {
        done += await writeAt(this.#file.fd, bytes.subarray(done), position + done);
      }
      if (SYNCED_WRITES === 0) await this.#file.datasync();
    } catch (failure) {
      // A full disk takes nothing, or some of the zeros ahead; of anything else nobody knows what was written.
      const errno = errnoOf(failure);
      const full = errno === "ENOSPC" || errno === "EDQUOT";
      if (!full || bytes.subarray(0, done).some((byte) => byte !== 0)) this.#failed = true;
      throw failure;
    }
  }

  #refusal(failure: unknown): LemonError {
    const refused = systemFailure(failure);
    if (refused.code === "no_space" || refused.code === "receipt_store_unavailable") return refused;
    return new LemonError("receipt_store_unavailable", { cause: failure });
  }
}

/** Resolves with how many bytes were taken. Every revision waits for it, and a `FileHandle` takes twice as long. */
function writeAt(fd: number, bytes: Uint8Array, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, 0, bytes.length, position, (failure, written) => {
      if (failure === null) resolve(written);
      else reject(failure);
    });
  });
}

function isAwaited({ synced }: Queued): boolean {
  return synced !== null;
}
