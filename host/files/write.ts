/**
 * Owns the write of a chunk (node-host-io.md, "File operations").
 *
 * 1. What is refused is refused before anything is made: size and bounds first, then the path, then the
 *    revision. What fails later leaves no file and no directory that it made.
 * 2. A success has been synced: the file, the directory of a new name, and those of the parents made for it.
 * 3. A file that appeared, or was changed, and could not be synced is `filesystem_outcome_unknown`.
 */
import { closeSync, constants, fstatSync, fsyncSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import type { AllowedRoots } from "../allowed-roots.ts";
import { type Met, openMet } from "../native/file.ts";
import type { Place } from "../path-walk.ts";
import { errnoOf } from "../system-error.ts";
import { fileFailure } from "./failure.ts";
import { MadeDirectories } from "./made-directories.ts";
import { newFile } from "./new-file.ts";
import type { FileOperations } from "./operations.ts";
import { apply, overwrite, type Target } from "./overwriting.ts";
import { demandRegular, metAt } from "./reading.ts";
import { modifiedMs, type Revisions } from "./revisions.ts";
import { syncNames } from "./syncing.ts";

const LARGEST_BYTES = 1_048_576;

type WriteRequest = Parameters<FileOperations["write"]>[0];
type Written = ReturnType<FileOperations["write"]>;

export interface FileGround {
  readonly roots: AllowedRoots;
  readonly revisions: Revisions;
}

/** Errors beside the file system's own: `revision_conflict`, `is_directory`, `not_regular`, `not_found`. */
export function writeChunk(ground: FileGround, place: Place, request: WriteRequest): Written {
  const { offset, bytes } = request;
  const met = metAt(place);
  const stats = met === null ? create(ground, place, request) : change(ground, place, met, request);
  ground.revisions.tell(place.path, stats);
  return {
    path: place.path,
    offset,
    bytesWritten: bytes.length,
    size: Number(stats.size),
    mtimeMs: modifiedMs(stats),
  };
}

/** Throws `too_large` and `invalid_params`. */
export function demandBounds({ bytes, offset }: WriteRequest): void {
  if (bytes.length > LARGEST_BYTES) throw new LemonError("too_large");
  if (!Number.isSafeInteger(offset) || offset < 0) throw new LemonError("invalid_params");
  // Its size could not be told any more.
  if (!Number.isSafeInteger(offset + bytes.length)) throw new LemonError("too_large");
}

function create({ roots }: FileGround, place: Place, request: WriteRequest) {
  const { names, parent, mustBeDirectory } = place;
  const name = names.at(-1);
  if (mustBeDirectory || name === undefined || parent === null)
    throw new LemonError("is_directory");
  if ((request.expectedModifiedAtMs ?? 0) !== 0) throw new LemonError("revision_conflict");
  if (names.length > 1 && !request.mkdirs) throw new LemonError("not_found");
  using parents = new MadeDirectories(roots, parent);
  let isThere = false;
  try {
    parents.make(names.slice(0, -1));
    const file = newFile(parents.innermost, name);
    try {
      apply(file.fd, request);
      fsyncSync(file.fd);
      file.appear();
      isThere = true;
      syncNames(parents.innermost, file.fd);
      parents.sync(file.fd);
      return fstatSync(file.fd, { bigint: true });
    } finally {
      file.close();
    }
  } catch (failure) {
    if (isThere) throw new LemonError("filesystem_outcome_unknown", { cause: failure });
    parents.takeBack();
    // Somebody made it meanwhile.
    if (errnoOf(failure) === "EEXIST") throw new LemonError("revision_conflict");
    throw fileFailure(failure);
  }
}

function change({ revisions }: FileGround, place: Place, met: Met, request: WriteRequest) {
  demandRegular(fstatSync(met.handle, { bigint: true }));
  const { expectedModifiedAtMs } = request;
  // Said before it is opened: a caller that knows of no file needs no right to it.
  if (expectedModifiedAtMs === null || expectedModifiedAtMs === 0)
    throw new LemonError("revision_conflict");
  const target = openTarget(met);
  try {
    const { before } = target;
    if (before.nlink === 0n) throw new LemonError("not_found");
    revisions.demand(place.path, before, expectedModifiedAtMs);
    if (before.size > BigInt(Number.MAX_SAFE_INTEGER)) throw new LemonError("too_large");
    try {
      return overwrite(target, request);
    } catch (failure) {
      // Put back as it was, it has another change time.
      revisions.tell(place.path, fstatSync(target.fd, { bigint: true }));
      throw failure;
    }
  } finally {
    closeSync(target.fd);
  }
}

/** To be read, too, where that is allowed. */
function openTarget(met: Met): Target {
  const target = (flags: number): Target => {
    const fd = openMet(met, flags);
    const before = fstatSync(fd, { bigint: true });
    return { fd, canRead: flags === constants.O_RDWR, before };
  };
  try {
    return target(constants.O_RDWR);
  } catch (failure) {
    if (errnoOf(failure) !== "EACCES") throw failure;
    return target(constants.O_WRONLY);
  }
}
