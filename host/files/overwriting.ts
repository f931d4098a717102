/**
 * Owns the change of an existing file in place: its inode, owner, links and open readers stay.
 *
 * 1. What fails before the file is as the caller wants it, and leaves it as it was, is a refusal. So the
 *    bytes that are to be replaced (1 MiB at most) are held until then; when a write or the cut fails in the
 *    middle they are put back, with size and modification time, and synced. A reader may have seen the
 *    middle. When they can not be put back, or could not be read, it is `filesystem_outcome_unknown`.
 * 2. Once it is as wanted, a failed sync leaves nobody knowing what is on the disk: `filesystem_outcome_unknown`.
 * 3. A change always moves the modification time to another ms: later than it was, except where nothing
 *    later can be set (another owner's file with a time in the future; the latest time that the file system
 *    keeps). Then it is now.
 */
import { type BigIntStats, fstatSync, fsyncSync, ftruncateSync, writeSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import { setModified, touch } from "../native/file.ts";
import { errnoOf } from "../system-error.ts";
import { readRange } from "./reading.ts";
import { modifiedMs } from "./revisions.ts";

export interface Change {
  readonly bytes: Uint8Array;
  readonly offset: number;
  /** Whether the file is to end after them. */
  readonly truncate: boolean;
}

/** A file that is open to be written. `canRead`: and to be read. */
export interface Target {
  readonly fd: number;
  readonly canRead: boolean;
  /** As it is. */
  readonly before: BigIntStats;
}

/** Writes all of it. Throws `SystemError`s of Node's. */
export function apply(fd: number, { bytes, offset, truncate }: Change): void {
  let done = 0;
  while (done < bytes.length) {
    done += writeSync(fd, bytes, done, bytes.length - done, offset + done);
  }
  if (truncate) ftruncateSync(fd, offset + bytes.length);
}

/** Changes the file and syncs it: what it is then. */
export function overwrite(target: Target, change: Change): BigIntStats {
  const { fd, before } = target;
  const replaced = bytesToReplace(target, change);
  try {
    apply(fd, change);
  } catch (failure) {
    restore(target, change, replaced, failure);
    throw failure;
  }
  try {
    advance(fd, before);
    fsyncSync(fd);
    // A server of the file's may set the time itself when it gets the bytes.
    if (advance(fd, before)) fsyncSync(fd);
    return fstatSync(fd, { bigint: true });
  } catch (cause) {
    throw unknown(cause);
  }
}

/** Null when they can not be read. */
function bytesToReplace(target: Target, { bytes, offset }: Change): Buffer | null {
  const length = Math.min(bytes.length, Number(target.before.size) - offset);
  if (length <= 0) return Buffer.alloc(0);
  return target.canRead ? readRange(target.fd, offset, length) : null;
}

/** Leaves the file as it was, or throws `filesystem_outcome_unknown`. */
function restore(
  { fd, before }: Target,
  { offset }: Change,
  replaced: Buffer | null,
  failure: unknown,
): void {
  try {
    const now = fstatSync(fd, { bigint: true });
    const isUntouched = now.mtimeNs === before.mtimeNs && now.size === before.size;
    // The kernel sets the time before it takes the first byte.
    if (isUntouched && now.ctimeNs === before.ctimeNs) return;
    if (replaced === null) throw new LemonError("filesystem_outcome_unknown", { cause: failure });
    if (replaced.length > 0) apply(fd, { bytes: replaced, offset, truncate: false });
    if (now.size !== before.size) ftruncateSync(fd, Number(before.size));
    restoreTime(fd, before);
    fsyncSync(fd);
  } catch {
    throw unknown(failure);
  }
}

/** For the owner only; others have to ask for the new time. */
function restoreTime(fd: number, before: BigIntStats): void {
  try {
    setModified(fd, before.mtimeNs);
  } catch (failure) {
    if (errnoOf(failure) !== "EPERM") throw failure;
  }
}

const NS_IN_MS = 1_000_000n;
/** Of file systems: most; old ones, 1 s; FAT, 2 s. */
const GRAINS_MS = [1n, 1_000n, 2_000n];
/** A tick of the kernel's clock is 10 ms at most. */
const MOST_TICKS = 50;

/** Moves the time on where the change itself did not. False when it did. */
function advance(fd: number, before: BigIntStats): boolean {
  const old = modifiedMs(before);
  if (msOf(fd) > old) return false;
  const now = BigInt(Date.now());
  const later = GRAINS_MS.map((grain) => (BigInt(old) / grain + 1n) * grain);
  // At the latest time that a file system can keep, only an earlier one is another one.
  for (const ms of [...later.map((next) => (now > next ? now : next)), now]) {
    try {
      setModified(fd, ms * NS_IN_MS);
    } catch (failure) {
      if (errnoOf(failure) !== "EPERM") throw failure;
      awaitTick(fd, old);
      return true;
    }
    if (msOf(fd) !== old) return true;
  }
  throw new LemonError("filesystem_outcome_unknown");
}

function msOf(fd: number): number {
  return modifiedMs(fstatSync(fd, { bigint: true }));
}

/** Who does not own a file may only set its time to now, as often as it takes to be another one. */
function awaitTick(fd: number, old: number): void {
  const never = new Int32Array(new SharedArrayBuffer(4));
  for (let tick = 0; tick < MOST_TICKS; tick += 1) {
    touch(fd);
    if (msOf(fd) !== old) return;
    Atomics.wait(never, 0, 0, 1);
  }
  throw new LemonError("filesystem_outcome_unknown");
}

function unknown(cause: unknown): LemonError {
  return new LemonError("filesystem_outcome_unknown", { cause });
}
