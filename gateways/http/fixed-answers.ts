/** Owns what the control plane's port answers by itself: its health, and each refusal. */
import { type HttpAnswer, jsonAnswer, refusal } from "./answer.ts";

export const HEALTHY = jsonAnswer(200, { ok: true });

export function readiness(missing: readonly string[]): HttpAnswer {
  if (missing.length === 0) return HEALTHY;
  const message = `The control plane can not do its work now: ${missing.join(", ")}`;
  const error = { code: "UNAVAILABLE", message, details: { missing } };
  return jsonAnswer(503, { error }, { "Retry-After": "1" });
}

export const NOT_FOUND = refusal(404, "NOT_FOUND", "Nothing is served here");
export const STARTING = refusal(503, "UNAVAILABLE", "The control plane is starting", {
  "Retry-After": "1",
});
export const CONTRADICTING_PROXY = refusal(
  400,
  "INVALID_REQUEST",
  "X-Forwarded-For and Forwarded name different callers; the proxy has to remove the one it does not set",
);
export const FOREIGN_PAGE = refusal(
  403,
  "FORBIDDEN",
  "Pages of this origin may not connect; the controller's --allowed-origin lets them",
);
export const CROWDED = refusal(429, "RATE_LIMITED", "Too many connections come from this address", {
  "Retry-After": "5",
});
export const UPGRADE_REQUIRED = refusal(
  426,
  "INVALID_REQUEST",
  "This path serves WebSocket connections",
  {
    Upgrade: "websocket",
    Connection: "Upgrade",
  },
);

export function methodNotAllowed(allow: string): HttpAnswer {
  return refusal(405, "INVALID_REQUEST", "The method is not allowed here", { Allow: allow });
}

/** The answer to bytes that were no request, or not soon enough; null where TLS failed or nobody is left to read it. */
export function unreadable(error: Error): HttpAnswer | null {
  const code = "code" in error ? error.code : undefined;
  if (typeof code !== "string" || !/^(?:HPE_|ERR_HTTP_)/.test(code)) return null;
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return refusal(431, "INVALID_REQUEST", "The request head is too large");
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return refusal(408, "TIMEOUT", "The request did not come in time");
    default:
      return refusal(400, "INVALID_REQUEST", "This is no HTTP request");
  }
}
