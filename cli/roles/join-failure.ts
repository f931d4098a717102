/**
 * Owns what a failed join tells whoever started it: what is wrong, what mends it, and the exit code:
 * 1 when this machine's side failed, 2 when the join was refused, 4 when a newer worker serves the node.
 */
import { LemonError } from "../../protocol/errors.ts";
import { certificateAdvice } from "../certificate.ts";
import { EXIT } from "../exit.ts";
import type { JoinOptions } from "../options.ts";

const SUPERSEDED = 4;

/** What an operator has to change ends with 2, what this machine has to, with 1. */
export function joinExitCode(failure: unknown): number {
  if (!(failure instanceof LemonError)) return EXIT.failure;
  if (failure.code === "node_superseded") return SUPERSEDED;
  return LOCAL_FAILURES.has(failure.code) ? EXIT.failure : EXIT.usage;
}

const LOCAL_FAILURES: ReadonlySet<string> = new Set([
  "home_unusable",
  "identity_in_use",
  "nats_server_missing",
  "nats_server_too_old",
  "nats_server_failed",
  "store_in_use",
  "receipt_store_unavailable",
  "link_lost",
  "restart_intensity_exceeded",
  "permission_denied",
  "no_space",
  "internal_error",
]);

/** The failure with what mends it, where the controller's own words do not say. */
export function withAdvice(failure: unknown, join: JoinOptions): unknown {
  if (!(failure instanceof LemonError)) return failure;
  const certificate = certificateAdvice(failure);
  const message =
    certificate === null ? sentence(failure, join) : `${failure.message}; ${certificate}`;
  return message === null ? failure : new LemonError(failure.code, { message, cause: failure });
}

function sentence({ code, message, details }: LemonError, join: JoinOptions): string | null {
  switch (code) {
    case "node_name_in_use":
      if (typeof details["retryAfterMs"] === "number") {
        const seconds = Math.ceil(details["retryAfterMs"] / 1_000);
        return `A join under this name was approved and is not finished; try again in ${seconds} s, or choose another --name`;
      }
      return `${message}; choose another --name, or take that node over with --node-id ID --repair`;
    case "node_superseded":
      return `A newer worker took this node over; take it back with ${AUTHORITY} and --repair`;
    case "node_revoked":
      return `An operator revoked this node; join it again with ${AUTHORITY} and --repair`;
    case "node_not_found":
      return `The controller knows no such node any more; join a new one with ${AUTHORITY} and --pair`;
    case "forbidden":
      return `${message}; recover the node with --repair`;
    case "unauthorized":
      return join.operatorToken === null && join.token === null
        ? `${message}; join with ${AUTHORITY}`
        : null;
    default:
      return null;
  }
}

const AUTHORITY = "an operator token (LEMON_NODE_OPERATOR_TOKEN or --operator-token-file)";

/** How a life ends that nobody here asked to end. */
export const LIFE_ENDS = {
  superseded: new LemonError("node_superseded", {
    message: "A newer worker serves this node; this one stopped what it ran and ended",
  }),
  revoked: new LemonError("node_revoked", {
    message: `An operator revoked this node; join it again with ${AUTHORITY} and --repair`,
  }),
  refused: new LemonError("unauthorized", {
    message: `The controller no longer takes this node's session; join it again with ${AUTHORITY} and --repair`,
  }),
  moved: new LemonError("link_lost", {
    message: "The controller gave this node a new NATS account; start the worker again",
  }),
} as const;
