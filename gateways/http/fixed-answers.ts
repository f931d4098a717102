/** Owns what a control plane's port answers by itself: its health, and each refusal that `protocol/http.ts` declares. */
import { type GuardedSpace, HTTP_REFUSALS } from "../../protocol/http.ts";
import { type HttpAnswer, jsonAnswer, refusal } from "./answer.ts";

export type RefusalName = keyof typeof HTTP_REFUSALS;

export const HEALTHY = jsonAnswer(200, { ok: true });

export function readiness(missing: readonly string[]): HttpAnswer {
  if (missing.length === 0) return HEALTHY;
  const { status, code, message, headers } = HTTP_REFUSALS.not_ready;
  const said = `${message}: ${missing.join(", ")}`;
  return jsonAnswer(status, { error: { code, message: said, details: { missing } } }, headers);
}

export interface RefusalParts {
  /** What stands behind the declared sentence. */
  readonly more?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A refusal as it is declared, in the envelope of the space that it is answered in; null for none. */
export function refused(
  name: RefusalName,
  space: GuardedSpace | null = null,
  { more, headers }: RefusalParts = {},
): HttpAnswer {
  const { status, code, message, ...declared } = HTTP_REFUSALS[name];
  const said = more === undefined ? message : `${message}: ${more}`;
  const all = { ...declared.headers, ...headers };
  if (space?.envelope !== "openai") return refusal(status, code, said, all);
  const type = status < 500 ? "invalid_request_error" : "server_error";
  return jsonAnswer(status, { error: { message: said, type } }, all);
}

export const NOT_FOUND = refused("not_found");
export const CONTRADICTING_PROXY = refused("contradicting_proxy");
export const FOREIGN_PAGE = refused("foreign_page");
export const CROWDED = refused("crowded");
export const UPGRADE_REQUIRED = refused("upgrade_required");
export const METHOD_NOT_ALLOWED = refused("method_not_allowed");
export const NO_TUNNEL = refused("no_tunnel");
export const FULL = refused("full");

/** The answer to bytes that were no request, or not soon enough; null where TLS failed or nobody is left to read it. */
export function unreadable(error: Error): HttpAnswer | null {
  const code = "code" in error ? error.code : undefined;
  if (typeof code !== "string" || !/^(?:HPE_|ERR_HTTP_)/.test(code)) return null;
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return refused("head_too_large");
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return refused("too_late");
    default:
      return refused("unreadable");
  }
}
