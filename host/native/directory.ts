/**
 * Owns directory-relative access that Node lacks: one component of a path at a time, seen from an open
 * directory (openat(2), openat2(2), readlinkat(2)). Throws `SystemError`.
 *
 * 1. No link is followed, whatever the name.
 * 2. A handle opens nothing in the sense of a device, a FIFO or a right to read: it only says which object
 *    is meant.
 */
import { closeSync, constants } from "node:fs";
import { checked, native } from "./library.ts";

const onDarwin = process.platform === "darwin";
const AT_FDCWD = onDarwin ? -2 : -100;
const O_CLOEXEC = onDarwin ? 0x100_0000 : 0o2_000_000;
/** macOS: a directory has no handle, it is opened to be read; for the rest O_EVTONLY is the nearest. */
const O_PATH = 0o10_000_000;
const O_EVTONLY = 0x8000;
const O_SYMLINK = 0x20_0000;

const DIRECTORY =
  (onDarwin ? 0 : O_PATH) | O_CLOEXEC | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const ANYTHING = onDarwin
  ? O_EVTONLY | O_SYMLINK | O_CLOEXEC | constants.O_NONBLOCK
  : O_PATH | O_CLOEXEC | constants.O_NOFOLLOW;
/** `PATH_MAX`: no link is longer. */
const LONGEST_LINK_BYTES = 4_096;

const openat = native("int openat(int directory, const char *name, int flags, ...)");
const readlinkat = native(
  "long readlinkat(int directory, const char *name, void *target, size_t size)",
);
const syscall = native("long syscall(long number, ...)");

/** Opens `name`, one component or `.`, of an open directory. */
export type OpenAt = (directory: number, name: string, flags: number) => number;

/** Keeps to one component because we give it no more. */
export const openComponent: OpenAt = (directory, name, flags) =>
  checked("openat", openat(directory, name, flags));

/**
 * Keeps to it because the kernel does (Linux 5.6): a name with `..`, `/` at its start or a link in it is
 * refused with EXDEV or ELOOP.
 */
export const openBeneath: OpenAt = (directory, name, flags) => {
  const SYS_OPENAT2 = 437;
  const NO_MAGICLINKS = 0x02;
  const NO_SYMLINKS = 0x04;
  const BENEATH = 0x08;
  /** `struct open_how`: flags, mode, resolve. */
  const how = new BigUint64Array([
    BigInt(flags),
    0n,
    BigInt(NO_MAGICLINKS | NO_SYMLINKS | BENEATH),
  ]);
  return checked(
    "openat2",
    syscall(
      SYS_OPENAT2,
      ...["int", directory, "str", name, "void *", how, "size_t", how.byteLength],
    ),
  );
};

/** The stricter of the two where this kernel and its filters know it. Throws only where there is neither. */
export function bestOpenAt(): OpenAt {
  const top = openDirectory("/");
  try {
    closeSync(openBeneath(top, ".", DIRECTORY));
    return openBeneath;
  } catch {
    return openComponent;
  } finally {
    closeSync(top);
  }
}

/**
 * Opens a handle on the directory `name` (one component, or `.`) of an open directory. A link is not
 * followed: ENOTDIR (Linux) or ELOOP.
 */
export function openDirectoryAt(
  directory: number,
  name: string,
  openAt: OpenAt = openComponent,
): number {
  return openAt(directory, name, DIRECTORY);
}

/** Opens a handle on whatever `name` is, a link itself included. */
export function openHandleAt(
  directory: number,
  name: string,
  openAt: OpenAt = openComponent,
): number {
  return openAt(directory, name, ANYTHING);
}

/** Opens a directory by an absolute path; its last component may not be a link. */
export function openDirectory(path: string): number {
  return openDirectoryAt(AT_FDCWD, path);
}

/** Where a link points of which `handle` is open, and which was met as `name` in `directory`. EINVAL or ENOENT when it is no link. */
export function readLink(handle: number, directory: number, name: string): Buffer {
  const target = Buffer.alloc(LONGEST_LINK_BYTES);
  const length = onDarwin
    ? readlinkat(directory, name, target, target.length)
    : readlinkat(handle, "", target, target.length);
  return target.subarray(0, checked("readlinkat", length));
}
