/**
 * Owns what is done to one entry of an open directory: told apart, renamed, unlinked, and its names read
 * (statx(2), renameat2(2), unlinkat(2), readdir(3)). Throws `SystemError`.
 *
 * 1. A name is bytes, one component of a path, without NUL: nothing is lost of one that is no UTF-8.
 * 2. No link is followed, no special file is opened, nothing is mounted.
 */
import { constants } from "node:fs";
import { directoryNames } from "./directory-names.ts";
import { checked, native } from "./library.ts";

const onDarwin = process.platform === "darwin";
const O_CLOEXEC = onDarwin ? 0x100_0000 : 0o2_000_000;
const AT_REMOVEDIR = onDarwin ? 0x80 : 0x200;
const AT_EACCESS = onDarwin ? 0x10 : 0x200;
const RENAME_NOREPLACE = 1;
const RENAME_EXCL = 4;
const READ_DIRECTORY =
  O_CLOEXEC |
  constants.O_RDONLY |
  constants.O_DIRECTORY |
  constants.O_NOFOLLOW |
  constants.O_NONBLOCK;

/** What one entry is at this moment. Times are Unix nanoseconds. */
export interface Entry {
  /** As `node:fs` has it. */
  readonly dev: bigint;
  readonly ino: bigint;
  /** `st_mode`, the bits of its type included. */
  readonly mode: number;
  readonly links: number;
  readonly size: bigint;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
  /** A file system is mounted on it (a bind mount of the same one, too). Always false where the system does not say so. */
  readonly mounted: boolean;
  /** Of the mount that it was met in; 0 where the system does not say so (Linux does since 5.8, as of `mounted`). */
  readonly mountId: bigint;
  /** Immutable or append-only (chattr(1), chflags(1)): it can be neither renamed nor removed, nor can its children. */
  readonly locked: boolean;
}

export const isDirectory = ({ mode }: { mode: number }): boolean => typeOf(mode) === 0o040_000;
export const isSymlink = ({ mode }: { mode: number }): boolean => typeOf(mode) === 0o120_000;
export const isRegular = ({ mode }: { mode: number }): boolean => typeOf(mode) === 0o100_000;

function typeOf(mode: number): number {
  return mode & constants.S_IFMT;
}

const openat = native("int openat(int directory, const void *name, int flags, ...)");
const unlinkat = native("int unlinkat(int directory, const void *name, int flags)");
const faccessat = native("int faccessat(int directory, const void *name, int mode, int flags)");

function terminated(name: Buffer): Buffer {
  return Buffer.concat([name, Buffer.of(0)]);
}

const HERE = Buffer.from(".");
/** Instead of a name: the open object, which need be no directory. */
export const ITSELF = Buffer.alloc(0);

/** What `name` is, or the open directory itself. */
export const entryAt: (directory: number, name?: Buffer) => Entry = onDarwin
  ? darwinEntryAt()
  : linuxEntryAt();

/** statx(2): the same layout on every architecture; a kernel since 4.11, a C library since 2018. */
function linuxEntryAt(): (directory: number, name?: Buffer) => Entry {
  const statx = native(
    "int statx(int directory, const void *name, int flags, unsigned int mask, void *result)",
  );
  const AT_SYMLINK_NOFOLLOW = 0x100;
  const AT_NO_AUTOMOUNT = 0x800;
  const AT_EMPTY_PATH = 0x1000;
  const STATX_BASIC_STATS = 0x7ff;
  const STATX_MNT_ID = 0x1000;
  const IMMUTABLE = 0x10n;
  const APPEND = 0x20n;
  const MOUNT_ROOT = 0x2000n;
  const result = Buffer.alloc(256);
  const nanoseconds = (offset: number): bigint =>
    result.readBigInt64LE(offset) * 1_000_000_000n + BigInt(result.readUInt32LE(offset + 8));
  return (directory, name = HERE) => {
    const flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;
    const wanted = STATX_BASIC_STATS | STATX_MNT_ID;
    checked("statx", statx(directory, terminated(name), flags, wanted, result));
    const attributes = result.readBigUInt64LE(8);
    const saysMount = (result.readUInt32LE(0) & STATX_MNT_ID) !== 0;
    return {
      links: result.readUInt32LE(16),
      mode: result.readUInt16LE(28),
      ino: result.readBigUInt64LE(32),
      size: result.readBigUInt64LE(40),
      ctimeNs: nanoseconds(96),
      mtimeNs: nanoseconds(112),
      dev: device(BigInt(result.readUInt32LE(136)), BigInt(result.readUInt32LE(140))),
      mounted: (attributes & MOUNT_ROOT) !== 0n,
      mountId: saysMount ? result.readBigUInt64LE(144) : 0n,
      locked: (attributes & (IMMUTABLE | APPEND)) !== 0n,
    };
  };
}

/** makedev(3): one number, as `node:fs` has it. */
function device(major: bigint, minor: bigint): bigint {
  return (
    ((major & 0xffff_f000n) << 32n) |
    ((major & 0xfffn) << 8n) |
    ((minor & 0xffff_ff00n) << 12n) |
    (minor & 0xffn)
  );
}

/** `struct stat` with 64-bit inodes, which only x64 keeps under a name of its own (stat(2) of macOS). */
function darwinEntryAt(): (directory: number, name?: Buffer) => Entry {
  const suffix = process.arch === "x64" ? "$INODE64" : "";
  const fstat = native(`int fstat${suffix}(int fd, void *result)`);
  const fstatat = native(
    `int fstatat${suffix}(int directory, const void *name, void *result, int flags)`,
  );
  const AT_SYMLINK_NOFOLLOW = 0x20;
  /** `UF_IMMUTABLE`, `UF_APPEND`, `SF_IMMUTABLE`, `SF_APPEND`. */
  const LOCKED = 0x0006_0006;
  const result = Buffer.alloc(144);
  const nanoseconds = (offset: number): bigint =>
    result.readBigInt64LE(offset) * 1_000_000_000n + result.readBigInt64LE(offset + 8);
  return (directory, name = HERE) => {
    if (name.length === 0) checked("fstat", fstat(directory, result));
    else checked("fstatat", fstatat(directory, terminated(name), result, AT_SYMLINK_NOFOLLOW));
    return {
      dev: BigInt(result.readUInt32LE(0)),
      mode: result.readUInt16LE(4),
      links: result.readUInt16LE(6),
      ino: result.readBigUInt64LE(8),
      mtimeNs: nanoseconds(48),
      ctimeNs: nanoseconds(64),
      size: result.readBigUInt64LE(96),
      mounted: false,
      mountId: 0n,
      locked: (result.readUInt32LE(116) & LOCKED) !== 0,
    };
  };
}

/** Opens a directory to read its names or to sync it; a link is not followed. `.` is the directory itself, as a description of its own. */
export function openFolderAt(directory: number, name: Buffer = HERE): number {
  return checked("openat", openat(directory, terminated(name), READ_DIRECTORY));
}

/** The names in a directory opened by `openFolderAt` and not yet read, unsorted; stops after `most`. */
export function namesOf(folder: number, most: number): Buffer[] {
  const names: Buffer[] = [];
  for (const name of directoryNames(folder)) {
    if (names.length === most) break;
    names.push(Buffer.from(name, "latin1"));
  }
  return names;
}

/** Gives an entry another name, replacing what bears it (rename(2)). */
export const replaceAt: Rename = renaming("int renameat(int, const void *, int, const void *)");

/**
 * Gives an entry another name, atomically and only when nothing bears it: EEXIST otherwise. ENOSYS, EINVAL
 * or ENOTSUP (EOPNOTSUPP) where the system or the file system has no such call.
 */
export const renameAt: Rename = onDarwin
  ? renaming("int renameatx_np(int, const void *, int, const void *, unsigned int)", RENAME_EXCL)
  : renaming("int renameat2(int, const void *, int, const void *, unsigned int)", RENAME_NOREPLACE);

type Rename = (from: number, name: Buffer, to: number, newName: Buffer) => void;

function renaming(declaration: string, ...flags: readonly number[]): Rename {
  const call = native(declaration);
  return (from, name, to, newName) => {
    checked("rename", call(from, terminated(name), to, terminated(newName), ...flags));
  };
}

/** Removes the name of anything but a directory. A link goes, never what it names. */
export function unlinkAt(directory: number, name: Buffer): void {
  checked("unlinkat", unlinkat(directory, terminated(name), 0));
}

/** Removes an empty directory: ENOTEMPTY otherwise. */
export function removeFolderAt(directory: number, name: Buffer): void {
  checked("unlinkat", unlinkat(directory, terminated(name), AT_REMOVEDIR));
}

/** Throws EACCES or EROFS unless this account may remove and rename what stands in an open directory. */
export function demandWritable(folder: number): void {
  const mode = constants.W_OK | constants.X_OK;
  checked("faccessat", faccessat(folder, terminated(HERE), mode, AT_EACCESS));
}
