/**
 * Owns the listing of one directory (node-host-io.md, "File operations").
 *
 * 1. Memory is bounded whatever the directory's length: names are read in slices, and only the first 500 of
 *    what was read so far are kept. Only those are looked at.
 * 2. Names are sorted by their bytes. A link is told as a link; nothing is opened but handles.
 * 3. A name that is UTF-8 stands as it is. Of any other each byte that is no UTF-8 reads NUL and two hex
 *    digits. No file's name holds NUL, so no two entries read the same; and no path may hold it, so a name
 *    that can not be asked for is refused when it is, and says so: its entry is `invalid_path`.
 */
import { isUtf8 } from "node:buffer";
import { closeSync, constants, fstatSync } from "node:fs";
import type { AllowedRoots } from "../allowed-roots.ts";
import { openHandleAt } from "../native/directory.ts";
import { directoryNames } from "../native/directory-names.ts";
import { type Met, openMet } from "../native/file.ts";
import { fileFailure } from "./failure.ts";
import type { FileEntry } from "./operations.ts";
import type { Revisions } from "./revisions.ts";
import { describe } from "./stat.ts";

const MOST_ENTRIES = 500;

export interface Listing {
  readonly entries: readonly FileEntry[];
  readonly truncated: boolean;
}

/** Lists a directory; `path` is its canonical path. Throws `SystemError` when it can not be read. */
export function listDirectory(
  directory: Met,
  path: string,
  showHidden: boolean,
  { roots, revisions }: { readonly roots: AllowedRoots; readonly revisions: Revisions },
): Listing {
  const { names, truncated } = namesOf(directory, showHidden);
  const prefix = path === "/" ? path : `${path}/`;
  const guard = roots.guard();
  const look = (name: string): FileEntry => {
    let handle: number | null = null;
    try {
      handle = openHandleAt(directory.handle, name);
      const stats = fstatSync(handle, { bigint: true });
      guard.refuse(handle);
      revisions.tell(prefix + name, stats);
      return { name, ...describe(stats, name, { handle, directory: directory.handle, name }) };
    } catch (failure) {
      return { name, error: fileFailure(failure).code };
    } finally {
      if (handle !== null) closeSync(handle);
    }
  };
  const entries = names.map((latin1): FileEntry => {
    const bytes = Buffer.from(latin1, "latin1");
    return isUtf8(bytes)
      ? look(bytes.toString("utf8"))
      : { name: rendered(bytes), error: "invalid_path" };
  });
  return { entries, truncated };
}

/** The first names by their bytes, as Latin-1, without what a directory that changes while it is read says twice. */
function namesOf(directory: Met, showHidden: boolean): { names: string[]; truncated: boolean } {
  // Not as its own `.`: to read names no right to enter is needed.
  const folder = openMet(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    let kept: string[] = [];
    let truncated = false;
    let last: string | undefined;
    for (const name of directoryNames(folder)) {
      if (!showHidden && name.startsWith(".")) continue;
      if (last !== undefined && name > last) continue;
      kept.push(name);
      // Sorted in bursts: as cheap as a heap, and simpler.
      if (kept.length < 2 * MOST_ENTRIES) continue;
      const first = firstOf(kept);
      kept = first.names;
      truncated ||= first.more;
      last = kept[MOST_ENTRIES - 1];
    }
    const { names, more } = firstOf(kept);
    return { names, truncated: truncated || more };
  } finally {
    closeSync(folder);
  }
}

function firstOf(names: readonly string[]): { names: string[]; more: boolean } {
  const sorted = [...new Set(names)].sort(byCode);
  return { names: sorted.slice(0, MOST_ENTRIES), more: sorted.length > MOST_ENTRIES };
}

function byCode(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** Longest UTF-8 sequence. */
const LONGEST_SEQUENCE = 4;

/** Escapes each byte that belongs to no UTF-8 sequence. */
export function rendered(name: Buffer): string {
  let text = "";
  for (let at = 0; at < name.length; ) {
    const sequence = sequenceAt(name, at);
    if (sequence === null) {
      text += `\0${name.toString("hex", at, at + 1)}`;
      at += 1;
    } else {
      text += sequence.toString("utf8");
      at += sequence.length;
    }
  }
  return text;
}

/** The one character that begins here; the shortest piece that is UTF-8. */
function sequenceAt(name: Buffer, at: number): Buffer | null {
  for (let length = 1; length <= LONGEST_SEQUENCE && at + length <= name.length; length += 1) {
    const piece = name.subarray(at, at + length);
    if (isUtf8(piece)) return piece;
  }
  return null;
}
