/**
 * Owns the reading of an operating system's refusal: which error of the table an errno is. The text
 * of a system error holds paths, so only its errno's name goes on, in `details.errno`.
 */
import { constants } from "node:os";
import { getSystemErrorMap } from "node:util";
import { type ErrorCode, type ErrorDetails, LemonError } from "../protocol/errors.ts";

/** A failed call of the operating system by its errno's name, as `node:fs` errors carry it. */
export class SystemError extends Error {
  override readonly name = "SystemError";
  /** `ENOENT`, `EPERM`, … */
  readonly code: string;
  /** The call that failed, for example `openat`. */
  readonly syscall: string;

  constructor(syscall: string, code: string) {
    super(`${syscall}: ${code}`);
    this.syscall = syscall;
    this.code = code;
  }
}

const CODE_OF: Readonly<Record<string, ErrorCode>> = {
  ENOENT: "not_found",
  ENOTDIR: "not_directory",
  EACCES: "permission_denied",
  EPERM: "permission_denied",
  EROFS: "permission_denied",
  ENOSPC: "no_space",
  EDQUOT: "no_space",
  ENOSYS: "not_implemented",
};

const NAMES = new Map(Object.entries(constants.errno).map(([name, errno]) => [errno, name]));

/** Node's own names first; it has none for some of a disk's and a network file system's (EDQUOT, ESTALE). */
export function errnoName(errno: number): string | null {
  return getSystemErrorMap().get(-errno)?.[0] ?? NAMES.get(errno) ?? null;
}

/** The errno's name of a failure of `node:fs`, `node:child_process` or `host/native`; null for anything else. */
export function errnoOf(failure: unknown): string | null {
  if (!(failure instanceof Error) || !("code" in failure)) return null;
  if (typeof failure.code === "string" && /^E[A-Z0-9]+$/.test(failure.code)) return failure.code;
  return "errno" in failure && typeof failure.errno === "number" ? errnoName(-failure.errno) : null;
}

/** The table's error for a failed system call. What is already of the table stays as it is. */
export function systemFailure(failure: unknown, details: ErrorDetails = {}): LemonError {
  if (failure instanceof LemonError) return failure;
  const errno = errnoOf(failure);
  if (errno === null) return new LemonError("internal_error", { cause: failure, details });
  return new LemonError(CODE_OF[errno] ?? "unavailable", {
    details: { errno, ...details },
    cause: failure,
  });
}
