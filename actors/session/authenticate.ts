/**
 * Owns who a connection is: the operator's token, a session token, or the loopback opt-in, and the
 * exact words of each refusal (control-plane-wire.md 1.3 and 2.1, rulings on tokens).
 *
 * 1. An offered token decides alone: a wrong one is never made good by where it came from.
 * 2. Nobody is a node or a device without a session token, whatever the role asked for.
 * 3. No token is kept, logged, or part of an error.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { Attempts } from "./attempts.ts";
import type { AttemptBound } from "./buckets.ts";
import type { Authenticate, Identity } from "./handler.ts";
import { tokenComparison } from "./operator-token.ts";

const LOOPBACK_OPT_IN_VARIABLE = "LEMON_CONTROL_PLANE_ALLOW_UNAUTHENTICATED_LOOPBACK";

/** The session tokens that enrolment gave out; the actor that owns the nodes implements it. */
export interface SessionTokens {
  /** Whom the token stands for now: null when it is none of ours, was revoked or replaced. */
  identify(token: string): Promise<Identity | null | "expired">;
}

/** The tokens of several rooms: the first that knows one says whom it stands for. */
export function firstOf(...rooms: readonly SessionTokens[]): SessionTokens {
  return {
    async identify(token) {
      for (const room of rooms) {
        const identity = await room.identify(token);
        if (identity !== null) return identity;
      }
      return null;
    },
  };
}

/** Wrong tokens of one address: enough for honest mistakes and clients that try again and again with an old one. */
export const TOKEN_ATTEMPTS: AttemptBound = { burst: 20, refillMs: 1_000 };

/** An operator's token shorter than this might be guessed: 32 hexadecimal digits are 128 bits. */
export const GUESSABLE_BELOW_LENGTH = 32;

/**
 * Bounds wrong tokens. Where a token might be guessed, who offers wrong ones too often is refused unheard for
 * a while; where none can be, a right one is always heard. Errors: as `authenticate`, and `rate_limited`.
 */
export function withTokenAttempts(
  authenticate: Authenticate,
  attempts: Attempts,
  { operatorToken }: Pick<AuthenticateOptions, "operatorToken">,
): Authenticate {
  const isGuessable = operatorToken !== null && operatorToken.length < GUESSABLE_BELOW_LENGTH;
  return (credentials) => {
    const { remoteAddress, token } = credentials;
    const admit = () => authenticate(credentials);
    // Without a token nothing is guessed.
    if (isBlank(token)) return admit();
    return isGuessable
      ? attempts.guard(remoteAddress, admit, isWrongGuess)
      : attempts.charge(remoteAddress, admit, isWrongGuess);
  };
}

/** What a store that is away or a revoked node is refused with tells a guesser nothing, and costs nobody anything. */
export function isWrongGuess(failure: unknown): boolean {
  return failure instanceof LemonError && failure.code === "unauthorized";
}

function isBlank(token: string | null): token is null {
  return token === null || token.trim() === "";
}

export interface AuthenticateOptions {
  /** Null when the control plane has none: then only session tokens and the opt-in let anybody in. */
  readonly operatorToken: string | null;
  readonly sessionTokens: SessionTokens;
  readonly allowUnauthenticatedLoopback: boolean;
}

/** Whether the environment lets direct loopback peers in as operators without a token. */
export function loopbackOptIn(environment: Readonly<Record<string, string | undefined>>): boolean {
  const value = environment[LOOPBACK_OPT_IN_VARIABLE]?.trim();
  return value === "true" || value === "1";
}

/** Session tokens have 43 characters; what is longer than this is no token and is not looked up. */
const TOKEN_MAX_LENGTH = 1_024;

/** Every refusal of a `connect`; existing clients show these words. */
const REFUSALS = {
  operatorRequired: "Operator token is required",
  invalid: "Invalid token",
  expired: "Token has expired",
  nodeRequired: "A valid node session token is required",
  unconfigured: "Operator authentication is required; configure LEMON_CONTROL_PLANE_OPERATOR_TOKEN",
  unsupported: "Unsupported token identity",
} as const;

function refusal(sentence: (typeof REFUSALS)[keyof typeof REFUSALS]): LemonError {
  return new LemonError("unauthorized", { message: sentence });
}

function refuse(sentence: (typeof REFUSALS)[keyof typeof REFUSALS]): never {
  throw refusal(sentence);
}

/** For a token that is worth nothing, or is not any more. */
export function invalidToken(): LemonError {
  return refusal(REFUSALS.invalid);
}

export function authenticator(options: AuthenticateOptions): Authenticate {
  const isOperatorToken =
    options.operatorToken === null ? () => false : tokenComparison(options.operatorToken);

  return async ({ token, role, clientId, directLoopback }) => {
    const asksForSession = role === "node" || role === "device";
    const operator: Identity = { role: "operator", clientId, node: null };

    if (isBlank(token)) {
      if (asksForSession) refuse(REFUSALS.nodeRequired);
      if (options.allowUnauthenticatedLoopback && directLoopback) return operator;
      refuse(options.operatorToken === null ? REFUSALS.unconfigured : REFUSALS.operatorRequired);
    }
    if (isOperatorToken(token)) {
      if (asksForSession) refuse(REFUSALS.nodeRequired);
      return operator;
    }
    if (token.length > TOKEN_MAX_LENGTH) refuse(REFUSALS.invalid);
    const identity = await options.sessionTokens.identify(token);
    if (identity === null) refuse(REFUSALS.invalid);
    if (identity === "expired") refuse(REFUSALS.expired);
    if (identity.role === "operator" || (identity.role === "node" && identity.node === null)) {
      refuse(REFUSALS.unsupported);
    }
    return identity;
  };
}
