/**
 * Owns the search for what an interrupted move, delete or upload left under its temporary name. It only
 * looks: whether such an entry is to be put back or removed is a person's decision.
 *
 * 1. Breadth first, so that what is near is found first; bounded in entries and in time.
 * 2. No link is followed, no other file system entered, and nothing below what was found.
 */
import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";
import { UPLOAD_PART } from "../../protocol/files.ts";
import { CAPTURE_PREFIXES } from "./capture.ts";

export interface LeftoverSearch {
  /** Of moves and deletes: absolute paths, sorted. */
  readonly paths: readonly string[];
  /** Of uploads that are not whole (yet), the same. */
  readonly parts: readonly string[];
  /** Entries that were looked at. */
  readonly entries: number;
  /** False when a bound ended the search. What could not be read counts as looked at. */
  readonly complete: boolean;
}

export interface LeftoverBounds {
  readonly entries: number;
  readonly ms: number;
}

const BOUNDS: LeftoverBounds = { entries: 100_000, ms: 2_000 };
const NAME = new RegExp(
  `^(?:${Object.values(CAPTURE_PREFIXES).join("|").replaceAll(".", "\\.")})[0-9a-f]{32}$`,
);
const PART = new RegExp(
  `^${UPLOAD_PART.prefix.replaceAll(".", "\\.")}[0-9a-f]{${UPLOAD_PART.digits}}$`,
);

/** `except`: a folder that no root serves, the state folder. */
export async function findLeftovers(
  roots: readonly string[],
  except: string,
  bounds: LeftoverBounds = BOUNDS,
): Promise<LeftoverSearch> {
  const until = performance.now() + bounds.ms;
  const paths = new Set<string>();
  const parts = new Set<string>();
  const found = () => ({ paths: [...paths].sort(), parts: [...parts].sort() });
  const folders = await Promise.all(roots.map(folderAt));
  const ahead = folders.filter((folder) => folder !== null);
  const seen = new Set(ahead.map(({ path }) => path));
  let entries = 0;
  for (const folder of ahead) {
    // What came or went while we looked is no business of this search.
    const names = await opendir(folder.path).catch(() => null);
    if (names === null) continue;
    for await (const entry of names) {
      if (entries === bounds.entries || performance.now() > until)
        return { ...found(), entries, complete: false };
      entries += 1;
      const path = join(folder.path, entry.name);
      if (NAME.test(entry.name)) paths.add(path);
      else if (PART.test(entry.name)) parts.add(path);
      else if (entry.isDirectory() && path !== except && !seen.has(path)) {
        const below = await folderAt(path);
        if (below?.dev === folder.dev) ahead.push(below);
      }
    }
  }
  return { ...found(), entries, complete: true };
}

async function folderAt(path: string): Promise<{ path: string; dev: number } | null> {
  const stats = await lstat(path).catch(() => null);
  return stats?.isDirectory() ? { path, dev: stats.dev } : null;
}
