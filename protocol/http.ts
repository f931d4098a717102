/**
 * Owns what the control plane's port says over plain HTTP, declared once: its paths, the spaces that ask for a
 * token, and every refusal. The port answers from it and `docs/reference/http.md` is made of it.
 * Source: system-methods.md ("HTTP and protocol errors"), control-plane-wire.md 4, RFC 9110, RFC 6750.
 */
import type { WireCode } from "./errors.ts";

export interface HttpPath {
  readonly path: string;
  readonly methods: string;
  readonly summary: string;
}

export const HTTP_PATHS = [
  {
    path: "/healthz",
    methods: "GET, HEAD",
    summary: 'The process answers: 200 `{"ok":true}`.',
  },
  {
    path: "/readyz",
    methods: "GET, HEAD",
    summary:
      'It can do its work: 200 `{"ok":true}`, else `not_ready`, whose `error.details.missing` lists what it lacks.',
  },
  {
    path: "/ws",
    methods: "GET, HEAD",
    summary: "The upgrade to the protocol of clients (RFC 6455); without one `upgrade_required`.",
  },
  {
    path: "/leafnode",
    methods: "GET, HEAD",
    summary:
      "The upgrade to the nodes' NATS link; without one `upgrade_required`. Absent with an external hub.",
  },
] as const satisfies readonly HttpPath[];

/** A path with all that is below it, where nobody without its token learns what there is. */
export interface GuardedSpace {
  readonly path: string;
  readonly summary: string;
  /**
   * The environment variables that hold its own token; the first that is set counts. With none set the
   * operator's token opens it.
   */
  readonly variables: readonly string[];
  /** Whether `x-api-key` carries the token as well, for clients that know no other header. */
  readonly takesApiKey: boolean;
  /** Where existing clients tell a wrong token from a missing one by 403, they go on to. */
  readonly wrongToken: "wrong_token" | "forbidden_token";
  /** `openai`: `{"error":{"message","type"}}`, which clients of that interface read. */
  readonly envelope: "lemon" | "openai";
}

export const OPERATOR_TOKEN_VARIABLE = "LEMON_CONTROL_PLANE_OPERATOR_TOKEN";

/** The innermost first: `/acp/ws` is none of `/acp`. */
export const GUARDED_SPACES = [
  {
    path: "/acp/ws",
    summary: "The Agent Client Protocol over a WebSocket",
    variables: [],
    takesApiKey: false,
    wrongToken: "wrong_token",
    envelope: "lemon",
  },
  {
    path: "/acp",
    summary: "The Agent Client Protocol",
    variables: ["LEMON_ACP_API_TOKEN"],
    takesApiKey: true,
    wrongToken: "forbidden_token",
    envelope: "lemon",
  },
  {
    path: "/v1",
    summary: "The interface of OpenAI's clients",
    variables: ["LEMON_OPENAI_COMPAT_API_TOKEN", "LEMON_OPENAI_COMPAT_TOKEN"],
    takesApiKey: true,
    wrongToken: "forbidden_token",
    envelope: "openai",
  },
] as const satisfies readonly GuardedSpace[];

/** The space of a path as it was sent: nothing is decoded or normalised. */
export function guardedSpaceOf(path: string): GuardedSpace | null {
  return (
    GUARDED_SPACES.find((space) => path === space.path || path.startsWith(`${space.path}/`)) ?? null
  );
}

/** How a caller lets itself in; what a refusal says to do. */
export function howToAuthenticate({ variables, takesApiKey }: GuardedSpace): string {
  const header = `Authorization: Bearer <token>${takesApiKey ? " (or x-api-key)" : ""}`;
  const [own] = variables;
  const token =
    own === undefined
      ? `the operator's token (${OPERATOR_TOKEN_VARIABLE})`
      : `the token of ${own}, or where that is not set the operator's (${OPERATOR_TOKEN_VARIABLE})`;
  return `send ${header} with ${token}`;
}

/** The name under which `WWW-Authenticate` asks for a token (RFC 9110 11.5). */
const REALM = "lemon";

export interface HttpRefusal {
  readonly status: number;
  readonly code: WireCode;
  readonly message: string;
  /** For the reference: what it answers. */
  readonly when: string;
  readonly headers: Readonly<Record<string, string>>;
}

function refused(
  status: number,
  code: WireCode,
  message: string,
  when: string,
  headers: Readonly<Record<string, string>> = {},
): HttpRefusal {
  return { status, code, message, when, headers };
}

export const HTTP_REFUSALS = {
  unreadable: refused(
    400,
    "INVALID_REQUEST",
    "This is no HTTP request",
    "bytes that are no request",
  ),
  contradicting_proxy: refused(
    400,
    "INVALID_REQUEST",
    "X-Forwarded-For and Forwarded name different callers; the proxy has to remove the one it does not set",
    "an upgrade, or a request to a guarded space, through a trusted proxy",
  ),
  missing_token: refused(
    401,
    "UNAUTHORIZED",
    "A token is needed",
    "a guarded space, whatever the path and method",
    { "WWW-Authenticate": `Bearer realm="${REALM}"` },
  ),
  wrong_token: refused(
    401,
    "UNAUTHORIZED",
    "The token is not valid",
    "a guarded space, whatever the path and method",
    { "WWW-Authenticate": `Bearer realm="${REALM}", error="invalid_token"` },
  ),
  forbidden_token: refused(
    403,
    "FORBIDDEN",
    "The token is not valid",
    "the same of `/acp` and `/v1`, as existing clients expect it",
    { "WWW-Authenticate": `Bearer realm="${REALM}", error="invalid_token"` },
  ),
  foreign_page: refused(
    403,
    "FORBIDDEN",
    "Pages of this origin may not connect; the controller's --allowed-origin lets them",
    "an upgrade from a page that is not [let in](../proxies.md#browsers)",
  ),
  not_found: refused(404, "NOT_FOUND", "Nothing is served here", "any other path"),
  method_not_allowed: refused(
    405,
    "INVALID_REQUEST",
    "The method is not allowed here",
    "a path of this port, with another method",
    { Allow: "GET, HEAD" },
  ),
  too_late: refused(
    408,
    "TIMEOUT",
    "The request did not come in time",
    "a request head of more than 10 s",
  ),
  upgrade_required: refused(
    426,
    "INVALID_REQUEST",
    "This path serves WebSocket connections",
    "`/ws` and `/leafnode` without an upgrade to WebSocket",
    { Upgrade: "websocket", Connection: "Upgrade" },
  ),
  crowded: refused(
    429,
    "RATE_LIMITED",
    "Too many connections come from this address",
    "an upgrade through a trusted proxy, beyond the bound of its caller's address",
    { "Retry-After": "5" },
  ),
  too_many_guesses: refused(
    429,
    "RATE_LIMITED",
    "Too many wrong tokens came from this address",
    "a wrong token where the caller's address has no [guess](../backend-client.md#errors) left, those of `connect` counted; `Retry-After` says when it has",
  ),
  head_too_large: refused(
    431,
    "INVALID_REQUEST",
    "The request head is too large",
    "a request head of more than 16 KiB",
  ),
  no_tunnel: refused(501, "NOT_IMPLEMENTED", "This is no proxy", "`CONNECT`"),
  starting: refused(
    503,
    "UNAVAILABLE",
    "The control plane is starting",
    "every request until its services are there",
    { "Retry-After": "1" },
  ),
  not_ready: refused(503, "UNAVAILABLE", "The control plane can not do its work now", "`/readyz`", {
    "Retry-After": "1",
  }),
  full: refused(
    503,
    "UNAVAILABLE",
    "The control plane serves its limit of connections",
    "an upgrade of `/ws` beyond 10,240",
    { "Retry-After": "5" },
  ),
} as const satisfies Readonly<Record<string, HttpRefusal>>;
