/**
 * Owns the OpenAPI 3.1 document of the host-agent's socket, out of the routes' declarations: what `GET
 * /v1/openapi.json` serves and `docs/reference/` keeps. https://spec.openapis.org/oas/v3.1.0
 */
import { z } from "zod";
import { type JsonObject, type JsonSchema, jsonSchemaOf } from "../json-schema.ts";
import { LEMON_VERSION } from "../version.ts";
import { HOST_AGENT_ERRORS, type HostAgentErrorCode } from "./errors.ts";
import { idempotencyKey } from "./job.ts";
import { COMMON_ERRORS, type RouteSpec } from "./route.ts";
import { ALL_ROUTES } from "./routes.ts";

const OCTETS: JsonObject = { "application/octet-stream": {} };
const ERROR = reference("Error");

const refusal = z.object({
  code: z.enum(Object.keys(HOST_AGENT_ERRORS)),
  message: z.string().describe("One sentence; nothing of the host, no path and no value in it."),
});

export function openApiDocument(): JsonObject {
  const schemas: Record<string, JsonObject> = { Error: add(refusal, "output", {}) };
  const paths: Record<string, Record<string, JsonObject>> = {};
  for (const spec of ALL_ROUTES) {
    const path = paths[spec.path] ?? {};
    path[spec.method.toLowerCase()] = operation(spec, schemas);
    paths[spec.path] = path;
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "lemon host-agent",
      version: LEMON_VERSION,
      description:
        "HTTP/1.1 on a UNIX socket; whoever may open the socket may do everything. Try it: curl --unix-socket /var/run/malmo/agent.sock http://localhost/v1/system/status",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [
      { url: "http://localhost", description: "Behind the socket; the host is not looked at." },
    ],
    security: [],
    paths,
    components: { schemas },
  };
}

type Schemas = Record<string, JsonObject>;

function operation(spec: RouteSpec, schemas: Schemas): JsonObject {
  const parameters = [
    ...parametersIn("path", spec.params, schemas),
    ...parametersIn("query", spec.query, schemas),
    ...headersOf(spec, schemas),
  ];
  return {
    operationId: spec.name,
    summary: spec.summary,
    ...(parameters.length > 0 && { parameters }),
    ...bodyOf(spec, schemas),
    responses: { [String(spec.status)]: success(spec, schemas), ...refusals(spec) },
  };
}

function parametersIn(
  place: "path" | "query",
  object: z.ZodObject,
  schemas: Schemas,
): JsonObject[] {
  return Object.entries(object.shape).map(([name, schema]) => {
    const { description, ...rest } = add(schema as z.ZodType, "input", schemas);
    return {
      name,
      in: place,
      required: place === "path" || !z.safeParse(schema as z.ZodType, undefined).success,
      ...(description !== undefined && { description }),
      schema: rest,
    };
  });
}

function headersOf(spec: RouteSpec, schemas: Schemas): JsonObject[] {
  const headers: JsonObject[] = [];
  if (spec.idempotencyKey) {
    headers.push({
      name: "Idempotency-Key",
      in: "header",
      required: false,
      description: "The same key and body is the same job, also after a restart.",
      schema: add(idempotencyKey, "input", schemas),
    });
  }
  if (spec.stream === "sse") {
    headers.push({
      name: "Last-Event-ID",
      in: "header",
      required: false,
      description: "The id of the last event that arrived: what follows it comes first.",
      schema: { type: "string" },
    });
  }
  return headers;
}

function bodyOf(spec: RouteSpec, schemas: Schemas): JsonObject {
  if (spec.upload) return { requestBody: { required: true, content: OCTETS } };
  if (spec.body === null) return {};
  const schema = add(spec.body, "input", schemas);
  return {
    requestBody: { required: !spec.bodyOptional, content: { "application/json": { schema } } },
  };
}

function success(spec: RouteSpec, schemas: Schemas): JsonObject {
  switch (spec.stream) {
    case "octets":
      return { description: "The bytes of the file.", content: OCTETS };
    case "sse": {
      const schema = { type: "string", contentMediaType: "application/json" };
      const contentSchema = add(spec.result, "output", schemas);
      return {
        description: "Events; the data of each is one JSON object on one line.",
        content: { "text/event-stream": { schema: { ...schema, contentSchema } } },
      };
    }
    default: {
      const { description, ...schema } = add(spec.result, "output", schemas);
      return {
        description: description ?? (spec.status === 202 ? "Accepted." : "Done."),
        content: { "application/json": { schema } },
      };
    }
  }
}

/** Every refusal of the route, by its HTTP status, with the codes that have it. */
function refusals({ errors }: RouteSpec): JsonObject {
  const byStatus = new Map<number, HostAgentErrorCode[]>();
  for (const code of new Set([...errors, ...COMMON_ERRORS])) {
    const { status } = HOST_AGENT_ERRORS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const sorted = [...byStatus].sort(([one], [other]) => one - other);
  return Object.fromEntries(
    sorted.map(([status, codes]) => [
      String(status),
      {
        description: codes
          .map((code) => `\`${code}\`: ${HOST_AGENT_ERRORS[code].message}`)
          .join("; "),
        content: { "application/json": { schema: ERROR } },
      },
    ]),
  );
}

/** The schema in place; shapes with a name of their own go among the components. */
function add(schema: z.ZodType, io: "input" | "output", schemas: Schemas): JsonObject {
  const converted = jsonSchemaOf(schema, io, "draft-2020-12");
  for (const [name, shape] of Object.entries(converted.shapes)) schemas[name] = rewritten(shape);
  return rewritten(converted.schema);
}

/** zod points to `#/$defs/…`, which in this document lies elsewhere. */
function rewritten({ id, ...schema }: JsonSchema): JsonObject {
  const text = JSON.stringify(schema);
  return JSON.parse(text.replaceAll('"#/$defs/', '"#/components/schemas/')) as JsonObject;
}

function reference(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}
