/**
 * Owns the reading of a directory's names in slices of fixed size (getdents64(2)): a directory of any
 * length costs the same memory. Node's own reading either takes all at once or, where the file system does
 * not say what kind an entry is, looks it up under a name that it decoded.
 */
import { checked, hasNative, native } from "./library.ts";

const onDarwin = process.platform === "darwin";
const SLICE_BYTES = 65_536;

const LINUX = "long getdents64(int folder, void *entries, size_t size)";
/** musl has it under this name only. */
const MUSL = "int getdents(int folder, void *entries, size_t size)";
const DARWIN = "long __getdirentries64(int folder, void *entries, size_t size, void *position)";

type ReadSlice = (folder: number, entries: Buffer) => number;

let readSlice: ReadSlice | undefined;

function sliceReader(): ReadSlice {
  if (onDarwin) {
    const call = native(DARWIN);
    const position = Buffer.alloc(8);
    return (folder, entries) => call(folder, entries, entries.length, position);
  }
  const call = native(hasNative(LINUX) ? LINUX : MUSL);
  return (folder, entries) => call(folder, entries, entries.length);
}

/** Place of `d_reclen` in `struct dirent64`; the same on both. */
const LENGTH_AT = 16;
const NAME_AT = onDarwin ? 21 : 19;

/**
 * Every name but `.` and `..` from where the open directory (opened to be read) stands, in the system's
 * order, each byte a Latin-1 character. Throws `SystemError`.
 */
export function* directoryNames(folder: number): Generator<string> {
  readSlice ??= sliceReader();
  const entries = Buffer.allocUnsafeSlow(SLICE_BYTES);
  for (;;) {
    const end = checked("getdents64", readSlice(folder, entries));
    if (end === 0) return;
    for (let at = 0; at < end; at += entries.readUInt16LE(at + LENGTH_AT)) {
      const from = at + NAME_AT;
      const name = entries.toString("latin1", from, entries.indexOf(0, from));
      if (name !== "." && name !== "..") yield name;
    }
  }
}
