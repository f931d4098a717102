/**
 * Owns what is done to files and their folders through descriptors, where Node knows only paths or loses
 * precision (open(2), linkat(2), mkdirat(2), faccessat(2), futimens(3), syncfs(2)). Throws `SystemError`.
 *
 * 1. What a handle means is opened itself, never what its name has come to mean.
 * 2. No link is followed but our own in `/proc/self/fd`, which leads to the object of a handle.
 */
import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { SystemError } from "../system-error.ts";
import { checked, native } from "./library.ts";

const onDarwin = process.platform === "darwin";
const AT_FDCWD = onDarwin ? -2 : -100;
const AT_EACCESS = onDarwin ? 0x10 : 0x200;
const AT_SYMLINK_FOLLOW = onDarwin ? 0x40 : 0x400;
const AT_SYMLINK_NOFOLLOW = 0x20;
const AT_EMPTY_PATH = 0x1000;
const O_CLOEXEC = onDarwin ? 0x100_0000 : 0o2_000_000;
const O_TMPFILE = 0o20_000_000 | constants.O_DIRECTORY;
/** `tv_nsec` of a time that is left as it is, and of one that is now. */
const UTIME_OMIT = onDarwin ? -2n : 0x3fff_fffen;
const UTIME_NOW = onDarwin ? -1n : 0x3fff_ffffn;

const openat = native("int openat(int directory, const char *name, int flags, ...)");
const mkdirat = native("int mkdirat(int directory, const char *name, uint mode)");
const linkat = native(
  "int linkat(int from, const char *name, int directory, const char *newName, int flags)",
);
const faccessat = native("int faccessat(int directory, const char *name, int mode, int flags)");
const futimens = native("int futimens(int fd, const void *times)");
const syncfs = native("int syncfs(int fd)");

/** How an object was met: its handle, and its name in an open directory. */
export interface Met {
  readonly handle: number;
  readonly directory: number;
  readonly name: string;
}

/** Opens the object of a handle for use; the caller has seen that it is a regular file, or a directory to be read. Never waits. */
export function openMet({ handle, directory, name }: Met, flags: number): number {
  const how = flags | constants.O_NONBLOCK | constants.O_NOCTTY;
  if (!onDarwin) return openSync(objectOf(handle), how);
  const again = openat(directory, name, how | constants.O_NOFOLLOW | O_CLOEXEC);
  const fd = checked("openat", again);
  if (isSame(handle, fd)) return fd;
  closeSync(fd);
  throw new SystemError("openat", "ENOENT");
}

function isSame(one: number, other: number): boolean {
  const [here, there] = [fstatSync(one, { bigint: true }), fstatSync(other, { bigint: true })];
  return here.ino === there.ino && here.dev === there.dev;
}

function objectOf(handle: number): string {
  return `/proc/self/fd/${handle}`;
}

/** Whether the system would let this account (its effective ids, ACLs, mounts and all) read or write it now. */
export function mayAccess({ handle, directory, name }: Met, mode: "read" | "write"): boolean {
  const wanted = mode === "read" ? constants.R_OK : constants.W_OK;
  if (onDarwin) return faccessat(directory, name, wanted, AT_EACCESS | AT_SYMLINK_NOFOLLOW) === 0;
  if (faccessat(handle, "", wanted, AT_EACCESS | AT_EMPTY_PATH) === 0) return true;
  // A kernel before 5.8 knows no flags; there the C library answers by its path.
  return faccessat(AT_FDCWD, objectOf(handle), wanted, AT_EACCESS) === 0;
}

const NEW_FILE = O_CLOEXEC | constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;

/** Creates a file that was not there, open for writing; EEXIST for a link, too. */
export function createAt(directory: number, name: string, mode: number): number {
  const flags = NEW_FILE | constants.O_NOFOLLOW;
  return checked("openat", openat(directory, name, flags, "uint", mode));
}

/**
 * A new file of a directory's file system that has no name, and is gone with its descriptor. EOPNOTSUPP,
 * EISDIR or ENOENT where there is no such thing.
 */
export function createUnnamed(directory: number, mode: number): number {
  if (onDarwin) throw new SystemError("openat", "EOPNOTSUPP");
  const flags = O_CLOEXEC | constants.O_WRONLY | O_TMPFILE;
  return checked("openat", openat(directory, ".", flags, "uint", mode));
}

/** Gives an unnamed file its name, unless something bears it: EEXIST. */
export function nameUnnamed(fd: number, directory: number, name: string): void {
  const result = linkat(AT_FDCWD, objectOf(fd), directory, name, AT_SYMLINK_FOLLOW);
  checked("linkat", result);
}

export function makeDirectoryAt(directory: number, name: string, mode: number): void {
  checked("mkdirat", mkdirat(directory, name, mode));
}

/** Sets the modification time, in Unix nanoseconds. EPERM for who may write the file and does not own it. */
export function setModified(fd: number, modifiedNs: bigint): void {
  // Rounded towards the past, as `struct timespec` is read.
  const nanoseconds = ((modifiedNs % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const seconds = (modifiedNs - nanoseconds) / 1_000_000_000n;
  checked("futimens", futimens(fd, new BigInt64Array([0n, UTIME_OMIT, seconds, nanoseconds])));
}

/** Sets access and modification time to the file system's clock: whoever may write the file may. */
export function touch(fd: number): void {
  checked("futimens", futimens(fd, new BigInt64Array([0n, UTIME_NOW, 0n, UTIME_NOW])));
}

/** Writes all that waits on the file system of an open file (not of a handle) to its disk. */
export function syncFileSystem(fd: number): void {
  checked("syncfs", syncfs(fd));
}
