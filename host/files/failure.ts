/** Owns the reading of a file system's refusal of a mutation. */
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import { errnoOf, systemFailure } from "../system-error.ts";

const CODE_OF: Readonly<Record<string, ErrorCode>> = {
  EROFS: "read_only_filesystem",
  EXDEV: "cross_device",
  EEXIST: "already_exists",
  ENOTEMPTY: "directory_not_empty",
  EISDIR: "is_directory",
  EBUSY: "filesystem_busy",
  EMFILE: "filesystem_busy",
  ENFILE: "filesystem_busy",
  ENAMETOOLONG: "invalid_path",
  ELOOP: "not_directory",
};

const IN_USE = "The system has it in use, as a mount point for example; nothing was done";

export function fileFailure(failure: unknown): LemonError {
  const errno = errnoOf(failure);
  const code = errno === null ? undefined : CODE_OF[errno];
  if (code === undefined) return systemFailure(failure);
  const details = { errno };
  return errno === "EBUSY"
    ? new LemonError(code, { message: IN_USE, details, cause: failure })
    : new LemonError(code, { details, cause: failure });
}
