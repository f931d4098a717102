/**
 * Owns the move of one entry from a name to another (node-host-io.md, "File operations").
 *
 * 1. The source is compared with what the caller saw, captured under `.lemon-move-*` in its own directory,
 *    and compared again: what was compared is what is moved.
 * 2. Nothing is replaced unless `overwrite` says so, an empty directory neither: the kernel decides, in the
 *    same call that moves. Even then a directory is never replaced, nor does one replace anything.
 * 3. After a refusal the source bears its old name, unless something else came there meanwhile.
 * 4. Success is told when both directories are synced. There is no copying and deleting instead.
 */
import { closeSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import {
  type Entry,
  entryAt,
  isDirectory,
  isRegular,
  isSymlink,
  renameAt,
  replaceAt,
} from "../native/entry.ts";
import { errnoOf, SystemError } from "../system-error.ts";
import { type Anchors, isAtOrBelow, isSameObject, rootStays } from "./anchors.ts";
import { isSameBesideChangeTime } from "./candidates.ts";
import { Capture, isUnsupported, type NamedPlace, withRemains } from "./capture.ts";
import { fileFailure } from "./failure.ts";
import { type OpenObject, syncOf } from "./syncing.ts";

export interface MoveRequest {
  readonly from: NamedPlace;
  readonly to: NamedPlace;
  /** Throws `revision_conflict` unless the source is as the caller last saw it. */
  readonly demandRevision: (source: Entry) => void;
  readonly overwrite: boolean;
  readonly openSource?: OpenObject;
}

/**
 * Errors: `not_found`, `revision_conflict`, `already_exists` (onto itself, too), `is_directory`,
 * `not_directory`, `not_regular` (what `overwrite` does not replace), `invalid_path` (into itself),
 * `path_not_allowed` (a root, or what holds one), `cross_device`, `atomic_move_unavailable`,
 * `filesystem_busy` (a mount point), `permission_denied`, `read_only_filesystem`, `no_space`;
 * `filesystem_outcome_unknown` when it was moved and could not be synced.
 */
export function moveEntry(request: MoveRequest, anchors: Anchors): void {
  const opened: number[] = [];
  try {
    // Before anything happens: what can not be opened can not be synced.
    const sync = syncOf([request.from.parent, request.to.parent], opened, request.openSource);
    const source = admitted(request, anchors);
    const capture = Capture.take(request.from.parent, request.from.name, "move");
    try {
      if (!isSameBesideChangeTime(capture.entry(), source))
        throw new LemonError("revision_conflict");
      settle(capture, request);
    } catch (failure) {
      throw withRemains(failure, { left: capture.putBack() ? 0 : 1 });
    }
    sync();
  } catch (failure) {
    throw fileFailure(failure);
  } finally {
    for (const folder of opened) closeSync(folder);
  }
}

/** The source; refuses what can be told without touching anything. The kernel, asked later, has the last word. */
function admitted({ from, to, overwrite, demandRevision }: MoveRequest, anchors: Anchors): Entry {
  const source = entryAt(from.parent, from.name);
  if (isDirectory(source) && anchors.standsOn(source)) throw rootStays();
  // A link would have been followed: it came there after the walk.
  if (isSymlink(source)) throw new LemonError("revision_conflict");
  demandRevision(source);
  // The kernel says so too, but not of a mount that only another mount namespace has.
  if (source.mounted) throw new SystemError("renameat2", "EBUSY");
  if (isDirectory(source) && isAtOrBelow(to.parent, source)) throw intoItself();
  const target = entryIfAny(to);
  if (target === null) {
    if (entryAt(from.parent).dev !== entryAt(to.parent).dev) throw new LemonError("cross_device");
  } else if (!overwrite || isSameObject(source, target)) {
    throw new LemonError("already_exists");
  } else {
    demandReplaceable(source, target);
  }
  return source;
}

function demandReplaceable(source: Entry, target: Entry): void {
  if (isDirectory(target)) throw new LemonError("is_directory");
  if (isDirectory(source)) throw new LemonError("not_directory");
  if (!isRegular(target) && !isSymlink(target)) throw new LemonError("not_regular");
}

/** Gives the captured source its new name. */
function settle(capture: Capture, { to, overwrite }: MoveRequest): void {
  try {
    renameAt(capture.folder, capture.name, to.parent, to.name);
    return;
  } catch (failure) {
    if (errnoOf(failure) !== "EEXIST" || !overwrite) throw refusal(failure, capture, to);
  }
  const source = capture.entry();
  const target = entryIfAny(to);
  if (target !== null) demandReplaceable(source, target);
  // What is no directory replaces none, whatever comes there meanwhile: EISDIR.
  if (isDirectory(source)) throw new LemonError("already_exists");
  replaceAt(capture.folder, capture.name, to.parent, to.name);
  // rename(2) does nothing when both are names of one file.
  if (entryIfAny(capture) !== null) throw new LemonError("already_exists");
}

function refusal(failure: unknown, capture: Capture, to: NamedPlace): unknown {
  if (!isUnsupported(failure)) return failure;
  // EINVAL has two meanings.
  const source = capture.entry();
  return isDirectory(source) && isAtOrBelow(to.parent, source)
    ? intoItself()
    : new LemonError("atomic_move_unavailable", { cause: failure });
}

function intoItself(): LemonError {
  return new LemonError("invalid_path", { message: "A directory can not be moved into itself" });
}

function entryIfAny(place: NamedPlace | Capture): Entry | null {
  try {
    return entryAt("parent" in place ? place.parent : place.folder, place.name);
  } catch (failure) {
    if (errnoOf(failure) === "ENOENT") return null;
    throw failure;
  }
}
