/**
 * Owns the way into the spaces of plain HTTP that ask for a token (protocol/http.ts).
 *
 * 1. Whoever brings no good token learns nothing of a path: neither whether it exists nor what it takes.
 * 2. A token counts in `Authorization: Bearer` (and `x-api-key`, where the space takes it) and nowhere else;
 *    in a query it is not looked at. None is kept, logged or answered.
 *
 * Source: system-methods.md ("HTTP and protocol errors"), RFC 6750 3, RFC 9110 11.6.1.
 */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { OpenSpace } from "../../actors/session/spaces.ts";
import { LemonError } from "../../protocol/errors.ts";
import { type GuardedSpace, howToAuthenticate } from "../../protocol/http.ts";
import type { HttpAnswer } from "./answer.ts";
import { refused } from "./fixed-answers.ts";

/** Null when the caller may see what there is; what it is answered if not. */
export async function refusalAt(
  space: GuardedSpace,
  { headers }: Pick<IncomingMessage, "headers">,
  remoteAddress: string,
  open: OpenSpace,
): Promise<HttpAnswer | null> {
  const token = tokenOf(headers, space);
  if (token === null) return refused("missing_token", space, { more: howToAuthenticate(space) });
  try {
    await open(space, token, remoteAddress);
    return null;
  } catch (failure) {
    if (!(failure instanceof LemonError)) throw failure;
    if (failure.code === "rate_limited") return tooManyGuesses(space, failure);
    return refused(space.wrongToken, space, { more: howToAuthenticate(space) });
  }
}

const BEARER = /^bearer +(\S+) *$/i;

function tokenOf(headers: IncomingHttpHeaders, space: GuardedSpace): string | null {
  const bearer = BEARER.exec(headers.authorization ?? "")?.[1];
  const key = space.takesApiKey ? [headers["x-api-key"]].flat().join().trim() : "";
  return bearer ?? (key === "" ? null : key);
}

const SECOND_MS = 1_000;

function tooManyGuesses(space: GuardedSpace, { details }: LemonError): HttpAnswer {
  const seconds = Math.max(1, Math.ceil(Number(details["retryAfterMs"]) / SECOND_MS));
  return refused("too_many_guesses", space, { headers: { "Retry-After": String(seconds) } });
}
