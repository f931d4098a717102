/**
 * Owns the delete of what a preview bound (node-host-io.md, "File operations").
 *
 * 1. The target is captured under `.lemon-delete-*` in its own directory, then compared with what was
 *    bound, all of it, before anything is removed: what was changed by then is put back whole.
 * 2. Each entry is compared, captured and compared again right before it is removed, so that a name which is
 *    exchanged meanwhile removes nothing else. What stood in no preview is never removed.
 * 3. Everything is reached from the descriptor of its directory; no link is followed, no other file system
 *    entered.
 * 4. After a refusal every captured entry bears its old name again, unless something else came there
 *    meanwhile: nothing is replaced. The error says what was removed and what could not be put back.
 * 5. Success is told when the directory that held the target is synced. It need not be readable.
 */
import { closeSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import {
  demandWritable,
  type Entry,
  entryAt,
  isDirectory,
  namesOf,
  openFolderAt,
  removeFolderAt,
  unlinkAt,
} from "../native/entry.ts";
import { errnoOf } from "../system-error.ts";
import { isSameObject, keyOf } from "./anchors.ts";
import {
  type Candidate,
  decodeCandidates,
  isSameBesideChangeTime,
  isUnchanged,
} from "./candidates.ts";
import { Capture, type NamedPlace, withRemains } from "./capture.ts";
import { fileFailure } from "./failure.ts";
import { type OpenObject, syncOf } from "./syncing.ts";

/** The calls that remove for good. */
export interface RemovalCalls {
  readonly unlinkAt: typeof unlinkAt;
  readonly removeFolderAt: typeof removeFolderAt;
}

export interface DeleteMeans extends Partial<RemovalCalls> {
  readonly openTarget?: OpenObject;
}

/**
 * Errors: `stale_preview`, `invalid_confirmation_token` (not the bytes of a preview), `permission_denied`,
 * `read_only_filesystem`, `atomic_move_unavailable`, `filesystem_busy` (a mount point); with
 * `mutationMayHaveApplied` when part of the tree is removed or an entry stays under its temporary name.
 * `filesystem_outcome_unknown` when it is removed and that could not be synced.
 */
export function deletePreviewed(
  place: NamedPlace,
  candidates: Uint8Array,
  { openTarget, ...calls }: DeleteMeans = {},
): void {
  const target = decodeCandidates(candidates);
  const { parent, name } = place;
  const opened: number[] = [];
  try {
    demandUnchanged(parent, name, target);
    const sync = syncOf([parent], opened, openTarget);
    new Removal({ unlinkAt, removeFolderAt, ...calls }).target(parent, name, target);
    sync();
  } catch (failure) {
    throw staleOr(failure);
  } finally {
    for (const fd of opened) closeSync(fd);
  }
}

function stale(): LemonError {
  return new LemonError("stale_preview");
}

/** A name that is gone, taken or of another kind was changed after the preview. */
const CHANGED: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "ELOOP", "ENOTEMPTY", "EISDIR"]);

function staleOr(failure: unknown): LemonError {
  return CHANGED.has(errnoOf(failure) ?? "")
    ? new LemonError("stale_preview", { cause: failure })
    : fileFailure(failure);
}

function demandUnchanged(folder: number, name: Buffer, { revision }: Candidate): Entry {
  const entry = entryAt(folder, name);
  if (entry.mounted || !isUnchanged(entry, revision)) throw stale();
  return entry;
}

/** The very names that were bound, no more and no less. */
function demandChildren(folder: number, children: readonly Candidate[]): void {
  const names = namesOf(folder, children.length + 1).sort(Buffer.compare);
  const same =
    names.length === children.length &&
    children.every(({ name }, index) => names[index]?.equals(name) === true);
  if (!same) throw stale();
}

/** Compares a whole tree without a change to it, and asks whether this account may remove it. */
function verify(folder: number, { children }: Candidate): void {
  demandChildren(folder, children);
  if (children.length > 0) demandWritable(folder);
  for (const child of children) {
    refuseLocked(demandUnchanged(folder, child.name, child));
    if (isDirectory(child.revision))
      inFolder(folder, child.name, child, (opened) => verify(opened, child));
  }
}

function refuseLocked({ locked }: Entry): void {
  if (locked) throw new LemonError("permission_denied");
}

function inFolder(
  parent: number,
  name: Buffer,
  candidate: Candidate,
  act: (folder: number) => void,
): void {
  const folder = openFolderAt(parent, name);
  try {
    if (!isSameObject(entryAt(folder), candidate.revision)) throw stale();
    act(folder);
  } finally {
    closeSync(folder);
  }
}

class Removal {
  readonly #calls: RemovalCalls;
  /** Entries that are gone for good. */
  #removed = 0;
  /** Entries that stay under their temporary name. */
  #left = 0;
  /** Files of several names, one of which was removed here: that changed their change time. */
  readonly #unlinked = new Set<string>();

  constructor(calls: RemovalCalls) {
    this.#calls = calls;
  }

  /** Captures, compares and removes the target; or puts it back, as far as it still stands. */
  target(parent: number, name: Buffer, target: Candidate): void {
    try {
      this.#capturing(parent, name, target, (capture) => {
        if (isDirectory(target.revision))
          inFolder(parent, capture.name, target, (folder) => {
            refuseLocked(entryAt(folder));
            verify(folder, target);
          });
        this.#remove(capture, target);
      });
    } catch (failure) {
      throw withRemains(staleOr(failure), { removed: this.#removed, left: this.#left });
    }
  }

  #capturing(
    folder: number,
    name: Buffer,
    candidate: Candidate,
    act: (capture: Capture) => void,
  ): void {
    const capture = Capture.take(folder, name, "delete");
    try {
      if (!isSameBesideChangeTime(capture.entry(), candidate.revision)) throw stale();
      act(capture);
    } catch (failure) {
      if (!capture.putBack()) this.#left += 1;
      throw failure;
    }
  }

  /** Removes what is captured and proven. */
  #remove(capture: Capture, candidate: Candidate): void {
    if (isDirectory(candidate.revision)) this.#removeDirectory(capture, candidate);
    else this.#removeFile(capture);
    this.#removed += 1;
  }

  #removeFile(capture: Capture): void {
    const entry = capture.entry();
    this.#calls.unlinkAt(capture.folder, capture.name);
    if (entry.links > 1) this.#unlinked.add(keyOf(entry));
  }

  #removeDirectory(capture: Capture, candidate: Candidate): void {
    inFolder(capture.folder, capture.name, candidate, (folder) => {
      demandChildren(folder, candidate.children);
      for (const child of candidate.children) this.#removeChild(folder, child);
      // Its times changed with its children; nothing else may have.
      const { mode, ino, dev } = capture.entry();
      if (mode !== candidate.revision.mode || !isSameObject({ dev, ino }, candidate.revision))
        throw stale();
      this.#calls.removeFolderAt(capture.folder, capture.name);
    });
  }

  #removeChild(folder: number, child: Candidate): void {
    if (!this.#unlinked.has(keyOf(child.revision))) demandUnchanged(folder, child.name, child);
    this.#capturing(folder, child.name, child, (capture) => this.#remove(capture, child));
  }
}
