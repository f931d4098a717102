/**
 * Owns directory-relative access that Node lacks: one component of a path at a time, seen from an open
 * directory (openat(2), readlinkat(2)). Throws `SystemError`.
 */
import { constants } from "node:fs";
import { checked, native } from "./library.ts";

const onDarwin = process.platform === "darwin";
const O_CLOEXEC = onDarwin ? 0x100_0000 : 0o2_000_000;
/** Only a handle: no right to read is needed, nothing is opened in the sense of a device. macOS has none; there the directory is opened to be read. */
const O_PATH = onDarwin ? 0 : 0o10_000_000;
const DIRECTORY = O_PATH | O_CLOEXEC | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** `PATH_MAX`: no link is longer. */
const LONGEST_LINK_BYTES = 4_096;

const openat = native("int openat(int directory, const char *name, int flags, ...)");
const readlinkat = native(
  "long readlinkat(int directory, const char *name, void *target, size_t size)",
);

/**
 * Opens the directory `name` (one component, or `.`) of an open directory. A link is not followed:
 * ENOTDIR (Linux) or ELOOP.
 */
export function openDirectoryAt(directory: number, name: string): number {
  return checked("openat", openat(directory, name, DIRECTORY));
}

/** Opens a directory by an absolute path; its last component may not be a link. */
export function openDirectory(path: string): number {
  const AT_FDCWD = onDarwin ? -2 : -100;
  return openDirectoryAt(AT_FDCWD, path);
}

/** Where the link `name` of an open directory points; EINVAL when it is no link. */
export function readLinkAt(directory: number, name: string): Buffer {
  const target = Buffer.alloc(LONGEST_LINK_BYTES);
  const length = checked("readlinkat", readlinkat(directory, name, target, target.length));
  return target.subarray(0, length);
}
