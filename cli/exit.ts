/**
 * Owns the exit codes of `lemon` (rulings, "CLI") and which failure ends with which.
 *
 * 1. 125 is kept for "something may have happened": a mutation that was sent and not clearly answered.
 * 2. `process run` also ends with the remote exit code, which may be any of these numbers; `--json`
 *    tells them apart.
 */
import { CallError, ConnectError } from "../client/errors.ts";
import { HostAgentCallError } from "../client/host-agent/errors.ts";
import { ERRORS, LemonError } from "../protocol/errors.ts";

export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 2,
  refused: 121,
  notFound: 122,
  conflict: 123,
  unknown: 125,
  cancelled: 126,
} as const;

/** What the user wrote is wrong, or not enough; nothing was sent or started. */
export class UsageError extends LemonError {
  /** A second line: what to do about it. */
  readonly hint: string | null;

  constructor(message: string, hint: string | null = null) {
    super("invalid_params", { message });
    this.hint = hint;
  }
}

/** This machine's side failed, whatever its code says of a node's. */
export class LocalFailure extends LemonError {}

export function exitCodeOf(error: unknown): number {
  if (error instanceof LocalFailure) return EXIT.failure;
  if (error instanceof HostAgentCallError) {
    if (error.mutationMayHaveApplied) return EXIT.unknown;
    return error.status === null ? EXIT.failure : exitCodeOfStatus(error.status, false);
  }
  if (!(error instanceof LemonError)) return EXIT.failure;
  if (error.mutationMayHaveApplied) return EXIT.unknown;
  if (error.wire === "NOT_FOUND") return EXIT.notFound;
  if (error.wire === "CONFLICT") return EXIT.conflict;
  // Nobody but the peer can refuse; what broke a bound before it left was the user's.
  if (!isAnswer(error)) return error.wire === "INVALID_REQUEST" ? EXIT.usage : EXIT.failure;
  return ERRORS[error.code].outcome === "refused" ? EXIT.refused : EXIT.failure;
}

/** For what the host-agent refused by HTTP; a change that failed there may have been done in part. */
export function exitCodeOfStatus(status: number, isChange: boolean): number {
  if (status === 404) return EXIT.notFound;
  if (status === 409) return EXIT.conflict;
  if (status < 500 || REFUSED.has(status)) return EXIT.refused;
  return isChange ? EXIT.unknown : EXIT.failure;
}

/** Not offered, not now, no space: nothing happened. */
const REFUSED: ReadonlySet<number> = new Set([501, 503, 507]);

function isAnswer(error: LemonError): boolean {
  if (error instanceof CallError) return error.answered;
  return error instanceof ConnectError && error.reason === "refused";
}
