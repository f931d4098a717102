/** Owns the reading of a file system's refusal of an operation on files. */
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import { errnoOf, systemFailure } from "../system-error.ts";

const CODE_OF: Readonly<Record<string, ErrorCode>> = {
  EROFS: "read_only_filesystem",
  EXDEV: "cross_device",
  EEXIST: "already_exists",
  ENOTEMPTY: "directory_not_empty",
  EISDIR: "is_directory",
  EBUSY: "filesystem_busy",
  ETXTBSY: "filesystem_busy",
  EAGAIN: "filesystem_busy",
  EMFILE: "filesystem_busy",
  ENFILE: "filesystem_busy",
  ENOMEM: "filesystem_busy",
  EFBIG: "too_large",
  ESTALE: "not_found",
  ENAMETOOLONG: "invalid_path",
  ELOOP: "not_directory",
};

const IN_USE = "The system has it in use, as a mount point for example; nothing was done";
const NO_SPACE = "No space is left on the node's disk, or for this account; nothing was done";
const DISK_ERROR = "The node's file system reports an input or output error; nothing was done";
const MESSAGES: Readonly<Record<string, string>> = {
  EBUSY: IN_USE,
  ETXTBSY: IN_USE,
  ENOSPC: NO_SPACE,
  EDQUOT: NO_SPACE,
  EIO: DISK_ERROR,
};

export function fileFailure(failure: unknown): LemonError {
  if (failure instanceof LemonError) return failure;
  const errno = errnoOf(failure);
  if (errno === null) return systemFailure(failure);
  const message = MESSAGES[errno];
  return new LemonError(CODE_OF[errno] ?? systemFailure(failure).code, {
    details: { errno },
    cause: failure,
    ...(message === undefined ? {} : { message }),
  });
}
