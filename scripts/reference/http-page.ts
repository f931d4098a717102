/** Owns the page that says what the control plane's port answers on plain HTTP. */
import {
  GUARDED_SPACES,
  type GuardedSpace,
  HTTP_PATHS,
  HTTP_REFUSALS,
  type HttpRefusal,
  howToAuthenticate,
  OPERATOR_TOKEN_VARIABLE,
} from "../../protocol/http.ts";
import { NOTICE, page, table } from "./markdown.ts";

export function httpPage(): string {
  return page(
    "# HTTP",
    NOTICE,
    "What a controller's one port answers besides the protocols of `/ws` and `/leafnode` ([backend-client.md](../backend-client.md), [proxies.md](../proxies.md)). Paths are compared as they were sent: nothing is decoded or normalised, and a query is not looked at. HEAD is answered as GET is, without the body. A connection on which more than 16 requests wait for their answers is cut.",
    table(
      ["path", "methods", ""],
      HTTP_PATHS.map(({ path, methods, summary }) => [code(path), methods, summary]),
    ),
    "## Guarded spaces",
    "For each of these, with all that is below it, a token is asked for **before** anything else is said: whether a path exists, or which methods it has. Nothing is served there by this version, so a good token is answered `not_found`.",
    table(
      ["path", "what it is for", "token", "header", "a wrong token"],
      GUARDED_SPACES.map(spaceRow),
    ),
    [
      `- Of several variables the first that is set counts; where none is set, it is the operator's token that opens the space (${code(OPERATOR_TOKEN_VARIABLE)}, or the file that the ready line names).`,
      "- Tokens are compared in constant time and never logged. In a query, a cookie or a body they are not looked at, and tokens of nodes and devices are for `/ws` alone.",
      "- A wrong one costs the caller's address a guess, of those that wrong tokens in `connect` cost. The loopback opt-in of `/ws` opens nothing here.",
      "- The other way round, `/ws` takes its token in `connect` and ignores an `Authorization` header.",
      ...GUARDED_SPACES.map((space) => `- ${code(space.path)}: ${howToAuthenticate(space)}.`),
    ].join("\n"),
    "## Refusals",
    'Each is `{"error":{"code","message"}}`, with the codes of `/ws`; under `/v1` it is `{"error":{"message","type"}}`, whose `type` is `invalid_request_error`, from 500 up `server_error`. A message never quotes the request.',
    table(
      ["", "status", "code", "when", "sentence", "headers"],
      Object.entries(HTTP_REFUSALS).map(([name, refusal]) => refusalRow(name, refusal)),
    ),
    "Every answer carries `Cache-Control: no-store`, `Content-Security-Policy: default-src 'none'; frame-ancestors 'none'`, `Cross-Origin-Resource-Policy: same-origin`, `Referrer-Policy: no-referrer`, `X-Content-Type-Options: nosniff` and `X-Frame-Options: DENY`, with TLS `Strict-Transport-Security` too. No other site's page may read one: there is no CORS.",
  );
}

function spaceRow({ path, summary, variables, takesApiKey, wrongToken }: GuardedSpace): string[] {
  return [
    code(path),
    summary,
    variables.length === 0 ? "the operator's" : variables.map(code).join(", "),
    takesApiKey ? "`Authorization: Bearer`, `x-api-key`" : "`Authorization: Bearer`",
    String(HTTP_REFUSALS[wrongToken].status),
  ];
}

function refusalRow(name: string, { status, code: wire, message, when, headers }: HttpRefusal) {
  const named = Object.entries(headers).map(([header, value]) => code(`${header}: ${value}`));
  return [code(name), String(status), code(wire), when, message, named.join(", ")];
}

function code(text: string): string {
  return `\`${text}\``;
}
