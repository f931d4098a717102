/** Owns the page that says of every route of the host-agent how it is asked and what it answers. */
import { HOST_AGENT_ERRORS, type HostAgentErrorCode } from "../../protocol/host-agent/errors.ts";
import { COMMON_ERRORS, type RouteSpec } from "../../protocol/host-agent/route.ts";
import { ALL_ROUTES, type RouteName } from "../../protocol/host-agent/routes.ts";
import { jsonSchemaOf } from "../../protocol/json-schema.ts";
import { fieldTable } from "./fields.ts";
import { HOST_AGENT_EXAMPLES, type RouteExample } from "./host-agent-examples.ts";
import { anchor, code, json, NOTICE, page, table } from "./markdown.ts";

/** In the order of the examples, so that a reader can follow them from the first to the last. */
export const ROUTES_IN_ORDER: readonly RouteSpec[] = Object.keys(HOST_AGENT_EXAMPLES).map(
  (name) => {
    const spec = ALL_ROUTES.find((route) => route.name === name);
    if (spec === undefined) throw new Error(`there is no route ${name}`);
    return spec;
  },
);

/** The command line, for a shell in which `$SOCKET` is the socket's path. */
export function curlOf(spec: RouteSpec): string {
  const { params = {}, query = {}, body } = exampleOf(spec);
  const path = spec.path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(Object(params)[name])),
  );
  const search = new URLSearchParams(Object(query)).toString();
  const url = `http://localhost${path}${search === "" ? "" : `?${search}`}`;
  const hasBody = body !== undefined && body !== null && Object.keys(body).length > 0;
  return [
    "curl --unix-socket $SOCKET",
    ...(spec.stream === "sse" ? ["-N"] : []),
    ...(spec.method === "POST" && !hasBody ? ["-X POST"] : []),
    ...(spec.upload ? ["-T img.jpg"] : []),
    ...(spec.stream === "octets" ? ["-o img.jpg"] : []),
    ...(spec.idempotencyKey ? [`-H 'Idempotency-Key: ${spec.name}:1'`] : []),
    ...(hasBody ? [`-d '${JSON.stringify(body)}'`] : []),
    search === "" ? url : `'${url}'`,
  ].join(" ");
}

export function exampleOf({ name }: RouteSpec): RouteExample {
  return HOST_AGENT_EXAMPLES[name as RouteName];
}

export function hostAgentPage(): string {
  return page(
    "# Routes of the host-agent",
    NOTICE,
    "Everything that the host-agent serves on its UNIX socket. What it is, jobs, streams and how a brain keeps to it stand in [brain.md](../brain.md); [host-agent.openapi.json](host-agent.openapi.json) (also at `GET /v1/openapi.json`) says all of it for machines. The examples follow from each other and are what `lemon host-agent --fake` answers; set `SOCKET` to its path first.",
    [
      "- A body is one JSON object; a field that is `null` counts as absent, one that is not listed is ignored. A field marked `?` may be absent. An answer may get more fields in a newer version.",
      "- A refusal is `{code, message}` with the status of the [table below](#errors). Beside those that are named with it, each route can answer:",
      `  ${COMMON_ERRORS.map((name) => `\`${name}\``).join(", ")}.`,
    ].join("\n"),
    table(
      ["route", "effect", "what it does"],
      ROUTES_IN_ORDER.map((spec) => [
        `[\`${heading(spec)}\`](${anchor(heading(spec))})`,
        spec.effect,
        spec.summary,
      ]),
    ),
    ...ROUTES_IN_ORDER.map(section),
    "## Errors",
    "`GET`s and what is marked a read change nothing whatever they answer. Of a change that was refused with a status below 500, or with 501, 503 or 507, nothing was done; after any other 5xx, and without an answer, it may have been.",
    table(
      ["code", "status", "sentence"],
      Object.entries(HOST_AGENT_ERRORS)
        .sort(([one], [other]) => (one < other ? -1 : 1))
        .map(([name, { status, message }]) => [`\`${name}\``, String(status), message]),
    ),
  );
}

function heading({ method, path }: RouteSpec): string {
  return `${method} ${path}`;
}

function section(spec: RouteSpec): string {
  const { params, query, body } = spec;
  const given = [params, query, ...(body === null ? [] : [body])].flatMap((schema) => {
    const fields = fieldTable(jsonSchemaOf(schema, "input").schema);
    return fields === null ? [] : [fields];
  });
  return [
    `## ${heading(spec)}`,
    `${spec.summary} In TypeScript: \`${spec.name}\`.`,
    ...given,
    code("sh", curlOf(spec)),
    code(languageOf(spec), answerOf(spec)),
    `Errors: ${errorsOf(spec)}`,
  ].join("\n\n");
}

function languageOf({ stream }: RouteSpec): string {
  return stream === null ? "json" : "text";
}

function answerOf(spec: RouteSpec): string {
  const { result } = exampleOf(spec);
  if (spec.stream === "octets") return "the bytes of the file";
  if (spec.stream === "sse") return `retry: 1000\n\nid: 1\ndata: ${JSON.stringify(result)}\n`;
  return json(result);
}

function errorsOf({ errors }: RouteSpec): string {
  const own = errors.filter(
    (name) => !(COMMON_ERRORS as readonly HostAgentErrorCode[]).includes(name),
  );
  return own.length === 0
    ? "those of every route."
    : `${own.map((name) => `\`${name}\``).join(", ")}.`;
}
