/** Owns what the reconciler needs of a host: one call by a route's name, and how its failures are told apart. */
import type { RouteResult } from "../../protocol/host-agent/routes.ts";
import type { HostAgent } from "../host-agent/index.ts";

export type StateSummary = RouteResult<"stateSummary">;

/** The host-agent's client, or what stands in for it. Rejects; see `failureOf`. */
export type ReconciledHost = Pick<HostAgent, "call">;

/** What a failure of a call says: its code, and whether the host answered that it will not do it. */
export interface HostFailure {
  readonly code: string;
  /** True: nothing happened, and the same again will be refused again. */
  readonly final: boolean;
  /** False: certainly nothing happened, whether or not it would now. */
  readonly begun: boolean;
}

/** Answers of 4xx that say "not now" instead of "no". */
const PASSING: ReadonlySet<number> = new Set([408, 425, 429]);
const NOT_IMPLEMENTED = 501;

/** Only the code is kept of a failure: its message can be of any origin. */
export function failureOf(failure: unknown): HostFailure {
  const { code, status, mutationMayHaveApplied } = Object(failure) as {
    readonly code?: unknown;
    readonly status?: unknown;
    readonly mutationMayHaveApplied?: unknown;
  };
  const answered = typeof status === "number" ? status : 0;
  const isNo = answered >= 400 && answered < 500 && !PASSING.has(answered);
  const final = isNo || answered === NOT_IMPLEMENTED;
  return {
    code: typeof code === "string" ? code : "unreachable",
    final,
    begun: !final && mutationMayHaveApplied !== false,
  };
}
