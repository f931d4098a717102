/**
 * Owns the failures a user of the host-agent's client meets.
 *
 * 1. `answered` false: the client knows by itself. Then only a request that was never sent, or a read, certainly
 *    changed nothing.
 * 2. A failure of a read never says that something may have been applied.
 */
import { isHostAgentErrorCode } from "../../protocol/host-agent/errors.ts";
import type { RouteName } from "../../protocol/host-agent/routes.ts";

/** What the client knows by itself. */
export type ClientCode =
  /** Nobody answers on the socket; nothing was sent. */
  | "unreachable"
  /** This account may not open the socket; nothing was sent, and waiting changes nothing. */
  | "no-access"
  /** The connection ended before the answer. */
  | "no-answer"
  /** No answer within the call's time. */
  | "timeout"
  /** The call's `signal` was aborted. */
  | "aborted"
  /** An answer that is none of this protocol. */
  | "bad-answer"
  /** The stream ended although more was to come, and did not come back in time. */
  | "stream-lost";

/** What it means that there was no connection: connect(2) says whether somebody could be there. */
export function unconnectedCode(cause: unknown): "unreachable" | "no-access" {
  const { code } = Object(cause) as { readonly code?: unknown };
  return code === "EACCES" || code === "EPERM" ? "no-access" : "unreachable";
}

interface Failed {
  readonly code: string;
  readonly route: RouteName;
  /** The route changes something. */
  readonly mutation: boolean;
  readonly status: number | null;
  readonly message: string;
  /** Whether the host may have acted. */
  readonly uncertain: boolean;
  /** Whether the same again does no harm. */
  readonly repeatable: boolean;
  readonly cause?: unknown;
}

/** A call that did not succeed. */
export class HostAgentCallError extends Error {
  override readonly name = "HostAgentCallError";
  /** A code of the host-agent's table, one that a newer agent may have, or a `ClientCode`. */
  readonly code: string;
  readonly route: RouteName;
  /** HTTP status of the answer; null when there was none. */
  readonly status: number | null;
  readonly answered: boolean;
  /** Whether the host may have acted: true only for a change that was sent and not clearly refused. */
  readonly mutationMayHaveApplied: boolean;
  /** Whether the same call may be sent again without harm. */
  readonly retrySafe: boolean;

  constructor({ code, route, mutation, status, message, uncertain, repeatable, cause }: Failed) {
    super(`${route}: ${message} (${code})`, cause === undefined ? undefined : { cause });
    this.code = code;
    this.route = route;
    this.status = status;
    this.answered = status !== null;
    this.mutationMayHaveApplied = mutation && uncertain;
    this.retrySafe = !mutation || repeatable || !uncertain;
  }

  /** Whether the code is one of the host-agent's table, as this version knows it. */
  get isKnown(): boolean {
    return isHostAgentErrorCode(this.code);
  }
}
