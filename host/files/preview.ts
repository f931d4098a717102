/**
 * Owns the preview of a delete: reads the target and all below it, and binds what it found.
 *
 * 1. Nothing is opened but directories, each from its parent's descriptor; no link is followed.
 * 2. Every entry counts, hidden ones and those of a name that is no UTF-8, too. A tree over a bound is
 *    refused, never pruned; the reading itself stops at the bound.
 * 3. Another file system mounted inside is not entered: such a tree is refused, like one that holds an
 *    allowed root or the state folder.
 * 4. What is bound is older than a tick of the file system's clock, so that any change of it from then on
 *    changes a time.
 */
import { closeSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import {
  type Entry,
  entryAt,
  isDirectory,
  isSymlink,
  namesOf,
  openFolderAt,
} from "../native/entry.ts";
import { errnoOf } from "../system-error.ts";
import { type Anchors, rootStays } from "./anchors.ts";
import {
  type Candidate,
  candidateBytes,
  childrenDigest,
  encodeCandidates,
  FRAME_BYTES,
} from "./candidates.ts";
import type { NamedPlace } from "./capture.ts";
import { fileFailure } from "./failure.ts";

export interface PreviewLimits {
  /** The target included. */
  readonly entries: number;
  /** Below the target. */
  readonly levels: number;
  /** Of `candidates`. */
  readonly bytes: number;
}

export const PREVIEW_LIMITS: PreviewLimits = { entries: 10_000, levels: 64, bytes: 8 * 1_048_576 };

export interface DeletePreview {
  /** The target as it was bound. */
  readonly target: Entry;
  /** Immediate children. */
  readonly childCount: number;
  readonly childrenDigest: string;
  /** The target included. */
  readonly candidateCount: number;
  readonly candidates: Uint8Array;
}

/** The coarsest tick of a Linux kernel's file times is 10 ms (CONFIG_HZ=100). */
const CLOCK_TICK_MS = 20;
const MOST_READINGS = 3;

/**
 * Errors: `not_found`, `directory_not_empty` (not recursive), `preview_too_large`, `path_not_allowed`,
 * `cross_device`, `permission_denied`, `filesystem_busy`.
 */
export function previewDelete(
  place: NamedPlace,
  recursive: boolean,
  anchors: Anchors,
  limits: PreviewLimits = PREVIEW_LIMITS,
): DeletePreview {
  try {
    for (let readings = 1; ; readings += 1) {
      const reading = new Reading(recursive, anchors, limits);
      const { target, candidate } = reading.target(place);
      if (reading.isSettled() || readings === MOST_READINGS) {
        const candidates = encodeCandidates(candidate);
        return {
          target,
          childCount: candidate.children.length,
          childrenDigest: childrenDigest(candidates),
          candidateCount: reading.entries,
          candidates,
        };
      }
      pause(CLOCK_TICK_MS);
    }
  } catch (failure) {
    throw fileFailure(failure);
  }
}

function mountedInside(): LemonError {
  return new LemonError("cross_device", {
    message: "It is, or holds, a mount point; unmount that first, or delete what is beside it",
  });
}

function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

class Reading {
  readonly #recursive: boolean;
  readonly #anchors: Anchors;
  readonly #limits: PreviewLimits;
  #bytes = FRAME_BYTES;
  #youngestNs = 0n;
  entries = 0;

  constructor(recursive: boolean, anchors: Anchors, limits: PreviewLimits) {
    this.#recursive = recursive;
    this.#anchors = anchors;
    this.#limits = limits;
  }

  target({ parent, name }: NamedPlace): { target: Entry; candidate: Candidate } {
    const found = entryAt(parent, name);
    // A link would have been followed: it came there after the walk.
    if (isSymlink(found)) throw new LemonError("not_found");
    const nameless = Buffer.alloc(0);
    if (!isDirectory(found)) return { target: found, candidate: this.#leaf(nameless, found) };
    const folder = openFolderAt(parent, name);
    try {
      const target = entryAt(folder);
      return { target, candidate: this.#directory(nameless, folder, target, 0) };
    } finally {
      closeSync(folder);
    }
  }

  /** Whether the file system's clock has moved on since the last change of anything read. */
  isSettled(): boolean {
    return this.#youngestNs / 1_000_000n < BigInt(Date.now() - CLOCK_TICK_MS);
  }

  #directory(name: Buffer, folder: number, entry: Entry, level: number): Candidate {
    if (this.#anchors.includes(entry)) throw rootStays();
    const candidate = { ...this.#leaf(name, entry), children: [] as Candidate[] };
    for (const child of this.#namesIn(folder, level)) {
      const found = this.#child(folder, child, entry, level + 1);
      if (found !== null) candidate.children.push(found);
    }
    return candidate;
  }

  #leaf(name: Buffer, entry: Entry): Candidate {
    if (entry.mounted) throw mountedInside();
    this.entries += 1;
    this.#bytes += candidateBytes(name);
    if (this.entries > this.#limits.entries || this.#bytes > this.#limits.bytes)
      throw new LemonError("preview_too_large");
    if (entry.ctimeNs > this.#youngestNs) this.#youngestNs = entry.ctimeNs;
    return { name, revision: entry, children: [] };
  }

  #namesIn(folder: number, level: number): readonly Buffer[] {
    const most = this.#recursive ? this.#limits.entries - this.entries + 1 : 1;
    const names = namesOf(folder, most);
    if (names.length === 0) return names;
    if (!this.#recursive) throw new LemonError("directory_not_empty");
    if (names.length === most || level === this.#limits.levels)
      throw new LemonError("preview_too_large");
    return names.sort(Buffer.compare);
  }

  /** Null for what went while we looked: its directory was read before, and is bound as it was then. */
  #child(parent: number, name: Buffer, above: Entry, level: number): Candidate | null {
    let folder: number;
    try {
      const found = entryAt(parent, name);
      if (!isDirectory(found)) return this.#leaf(name, found);
      folder = openFolderAt(parent, name);
    } catch (failure) {
      if (["ENOENT", "ENOTDIR", "ELOOP"].includes(errnoOf(failure) ?? "")) return null;
      throw failure;
    }
    try {
      const entry = entryAt(folder);
      if (entry.dev !== above.dev) throw mountedInside();
      return this.#directory(name, folder, entry, level);
    } finally {
      closeSync(folder);
    }
  }
}
