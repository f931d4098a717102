/**
 * Owns what whoever starts a controller is told of a door that lets in more than they may have meant: a line
 * each, once. Nothing of it is refused, since each may be meant.
 */
import { GUESSABLE_BELOW_LENGTH } from "../../actors/session/authenticate.ts";
import { isLoopback } from "../controller-url.ts";

/** How a controller's door stands. */
export interface Door {
  readonly host: string;
  readonly port: number;
  readonly hasTls: boolean;
  /** The operator's token, when the environment gave it; null for the managed one. */
  readonly givenToken: string | null;
  readonly unauthenticatedLoopback: boolean;
}

export function doorWarnings(door: Door): readonly string[] {
  const warnings: string[] = [];
  const { host, port, hasTls, givenToken, unauthenticatedLoopback } = door;
  if (!hasTls && !isLoopback(host.includes(":") ? `[${host}]` : host)) {
    const where = isWildcard(host) ? "every address of this machine" : host;
    warnings.push(
      `warning: port ${port} of ${where} speaks no TLS: tokens and data can be read on the way; give --tls-cert and --tls-key, or let only an encrypted network reach it`,
    );
  }
  if (givenToken !== null && givenToken.length < GUESSABLE_BELOW_LENGTH) {
    warnings.push(
      `warning: LEMON_CONTROL_PLANE_OPERATOR_TOKEN has fewer than ${GUESSABLE_BELOW_LENGTH} characters, so it may be guessed; make one with: openssl rand -hex 32`,
    );
  }
  if (unauthenticatedLoopback) {
    warnings.push(
      "warning: LEMON_CONTROL_PLANE_ALLOW_UNAUTHENTICATED_LOOPBACK is set: every program and user of this machine is the operator, without a token",
    );
  }
  return warnings;
}

/** Whether a `--host` stands for all addresses there are. */
export function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}
