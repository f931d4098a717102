/**
 * Owns the AsyncAPI 3.0 document of `/ws`, seen from the control plane: it receives requests, replies,
 * and sends events. https://www.asyncapi.com/docs/reference/specification/v3.0.0
 */
import { z } from "zod";
import { type AnyEventName, EVENT_SPECS, EVENTS } from "../../protocol/events.ts";
import { type Json, type JsonObject, jsonSchemaOf } from "../../protocol/json-schema.ts";
import type { MethodSpec } from "../../protocol/method.ts";
import { LEMON_VERSION } from "../../protocol/version.ts";
import { CONNECT_EXAMPLE, ERROR_EXAMPLE, eventExample, HELLO_EXAMPLE } from "./examples/frames.ts";
import { exampleOf } from "./examples.ts";
import {
  answerId,
  connectFrame,
  errorFrame,
  eventSeq,
  helloFrame,
  requestId,
  stateVersion,
} from "./frames.ts";
import { METHODS_BY_NAME } from "./methods-page.ts";

export function asyncApi(): JsonObject {
  const schemas = new Schemas();
  const messages: Record<string, JsonObject> = {
    "connect.request": message("connect", "The first request of a connection.", CONNECT_EXAMPLE, {
      payload: schemas.add("connect.request", connectFrame, "input"),
      correlated: true,
    }),
    "hello-ok": message("hello-ok", "The welcome; the answer to `connect`.", HELLO_EXAMPLE, {
      payload: schemas.add("hello-ok", helloFrame, "output"),
      correlated: false,
    }),
    error: message("error", "The answer to a request that failed.", ERROR_EXAMPLE, {
      payload: schemas.add("error", errorFrame, "output"),
      correlated: true,
    }),
  };
  const operations: Record<string, JsonObject> = {
    connect: {
      ...receives("connect.request", ["hello-ok", "error"]),
      summary: "Opens the session. A refusal keeps the socket, for another try within 10 s.",
    },
  };
  for (const spec of METHODS_BY_NAME) {
    Object.assign(messages, methodMessages(spec, schemas));
    operations[spec.name] = methodOperation(spec);
  }
  for (const name of EVENTS) {
    messages[eventKey(name)] = eventMessage(name, schemas);
    operations[eventKey(name)] = {
      action: "send",
      channel: { $ref: CHANNEL },
      summary: EVENT_SPECS[name].summary,
      messages: [inChannel(eventKey(name))],
      "x-topics": [...EVENT_SPECS[name].topics],
    };
  }
  return {
    asyncapi: "3.0.0",
    info: {
      title: "lemon control plane",
      version: LEMON_VERSION,
      description:
        "The WebSocket gateway of a lemon controller. One JSON object a text frame; answers come in whatever order they finish and are told apart by `id`.",
      license: { name: "Apache-2.0", url: "https://www.apache.org/licenses/LICENSE-2.0" },
    },
    defaultContentType: "application/json",
    servers: {
      loopback: {
        host: "127.0.0.1:4040",
        protocol: "ws",
        description: "A controller on this machine, as it listens by default.",
      },
      remote: {
        host: "{host}",
        protocol: "wss",
        description: "A controller behind TLS.",
        variables: {
          host: { description: "Host, and port unless 443.", examples: ["controller.example"] },
        },
      },
    },
    channels: {
      ws: {
        address: "/ws",
        description: "One WebSocket. Binary frames are refused.",
        messages: Object.fromEntries(
          Object.keys(messages).map((name) => [name, { $ref: `#/components/messages/${name}` }]),
        ),
        bindings: { ws: { method: "GET", bindingVersion: "0.1.0" } },
      },
    },
    operations,
    components: { messages, schemas: schemas.all },
  };
}

const CHANNEL = "#/channels/ws";

function inChannel(message: string): JsonObject {
  return { $ref: `${CHANNEL}/messages/${message}` };
}

const requestKey = (method: string): string => `${method}.request`;
const resultKey = (method: string): string => `${method}.result`;
const eventKey = (event: AnyEventName): string => `event.${event}`;

function receives(request: string, replies: readonly string[]): JsonObject {
  return {
    action: "receive",
    channel: { $ref: CHANNEL },
    messages: [inChannel(request)],
    reply: { channel: { $ref: CHANNEL }, messages: replies.map(inChannel) },
  };
}

function methodOperation(spec: MethodSpec): JsonObject {
  const { name, summary, scopes, role, effect, retrySafe, settledBy } = spec;
  return {
    ...receives(requestKey(name), [resultKey(name), "error"]),
    summary,
    "x-scopes": [...scopes],
    ...(role === undefined ? {} : { "x-role": role }),
    "x-effect": effect,
    "x-retry-safe": retrySafe,
    ...(settledBy === null
      ? {}
      : { "x-settled-by": { method: settledBy.method, params: [...settledBy.params] } }),
  };
}

function methodMessages(spec: MethodSpec, schemas: Schemas): Record<string, JsonObject> {
  const { name, summary } = spec;
  const example = exampleOf(name);
  const params = schemas.add(
    `${name}.params`,
    spec.unknownParams === "refused" ? spec.params.strict() : spec.params,
    "input",
  );
  const needsParams = schemas.requires(`${name}.params`);
  const result = schemas.add(resultKey(name), spec.result, "output");
  const request = { type: "req", id: "7", method: name, params: example.params };
  const answer = { type: "res", id: "7", ok: true, payload: example.result };
  return {
    [requestKey(name)]: message(name, summary, request, {
      payload: object(
        {
          type: { const: "req" },
          id: schemas.of(requestId, "input"),
          method: { const: name },
          params,
        },
        needsParams ? [] : ["params"],
      ),
      correlated: true,
    }),
    [resultKey(name)]: message(`${name} result`, `The result of ${name}.`, answer, {
      payload: object({
        type: { const: "res" },
        id: schemas.of(answerId, "output"),
        ok: { const: true },
        payload: result,
      }),
      correlated: true,
    }),
  };
}

function eventMessage(name: AnyEventName, schemas: Schemas): JsonObject {
  const { summary, payload } = EVENT_SPECS[name];
  return message(name, summary, eventExample(name), {
    payload: object({
      type: { const: "event" },
      event: { const: name },
      seq: schemas.of(eventSeq, "output"),
      payload: schemas.of(payload, "output"),
      stateVersion: schemas.of(stateVersion, "output"),
    }),
    correlated: false,
  });
}

function object(properties: JsonObject, optional: readonly string[] = []): JsonObject {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: "object", properties, required };
}

function message(
  name: string,
  summary: string,
  example: unknown,
  { payload, correlated }: { readonly payload: Json; readonly correlated: boolean },
): JsonObject {
  return {
    name,
    summary,
    payload,
    ...(correlated ? { correlationId: { location: "$message.payload#/id" } } : {}),
    examples: [{ payload: asJson(example) }],
  };
}

/** The shared schemas of the document, and the references to them. */
class Schemas {
  readonly #schemas: Record<string, JsonObject> = {};

  get all(): JsonObject {
    return Object.fromEntries(Object.entries(this.#schemas).sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  add(name: string, schema: z.ZodType, io: "input" | "output"): JsonObject {
    this.#schemas[name] = this.of(schema, io);
    return { $ref: reference(name) };
  }

  /** In place; what it shares with others goes among the shared ones. */
  of(schema: z.ZodType, io: "input" | "output"): JsonObject {
    const converted = jsonSchemaOf(schema, io);
    for (const [name, shared] of Object.entries(converted.shapes))
      this.#schemas[name] = asObject(rebased(asJson(shared)));
    return asObject(rebased(asJson(converted.schema)));
  }

  requires(name: string): boolean {
    return this.#schemas[name]?.["required"] !== undefined;
  }
}

const reference = (name: string): string => `#/components/schemas/${name}`;

/** zod points to `#/definitions/…`, which in this document lies elsewhere. */
function rebased(value: Json): Json {
  if (Array.isArray(value)) return value.map(rebased);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      name === "$ref" && typeof member === "string"
        ? reference(member.replace(/^#\/definitions\//, ""))
        : rebased(member),
    ]),
  );
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function asObject(value: Json): JsonObject {
  if (!isObject(value)) throw new Error("not a JSON object");
  return value;
}

/** What is JSON by its making, as the compiler can believe it. */
function asJson(value: unknown): Json {
  return z.json().parse(value);
}
