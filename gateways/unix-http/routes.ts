/**
 * Owns how one declared route is served: the request is read and validated by its declaration, handed to its
 * handler, and what that says is written. No rule of the domain lives here.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type {
  Call,
  RouteHandlers,
  StreamRoute,
  StreamSource,
} from "../../actors/machine/handlers.ts";
import type { Clock } from "../../host/clock.ts";
import type { Download } from "../../host/machine/files.ts";
import type { HostAgentError } from "../../protocol/host-agent/errors.ts";
import { idempotencyKey } from "../../protocol/host-agent/job.ts";
import type { RouteSpec } from "../../protocol/host-agent/route.ts";
import type { RouteName } from "../../protocol/host-agent/routes.ts";
import { encodeJson, JSON_TYPE, refusalOf } from "./answers.ts";
import { type BodyLimits, parseObject, readBody } from "./body.ts";
import { receive, sendDownload, type TransferLimits } from "./content.ts";
import { readerOf } from "./live-sources.ts";
import { lastEventIdOf, type Streams } from "./sse.ts";
import { validBody, validText } from "./validation.ts";

export interface RouteServing {
  readonly handlers: RouteHandlers;
  readonly streams: Streams;
  readonly clock: Clock;
  readonly log: Logger;
  readonly limits: BodyLimits & TransferLimits;
}

type Serve = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

/** Answers every request for `route`; it never rejects. */
export function serveRoute(route: RouteSpec, serving: RouteServing): Serve {
  const answer = answerOf(route, serving);
  return async (request, reply) => {
    try {
      return await answer(request, reply);
    } catch (failure) {
      return sendRefusal(reply, told(failure, route, serving.log));
    }
  };
}

/**
 * For a read that asks nothing of its request, as status is, all the time: the same answer without the way through
 * the router, which costs as much as the answer does. Null for any other route. It never rejects.
 */
export function servePlain(
  route: RouteSpec,
  { handlers, log }: RouteServing,
): ((response: ServerResponse) => Promise<void>) | null {
  if (route.method !== "GET" || route.stream !== null || !asksNothing(route)) return null;
  const handler = handlers[route.name as RouteName] as AnyHandler;
  return async (response) => {
    try {
      writeJson(response, route.status, await handler(ASKS_NOTHING));
    } catch (failure) {
      const { status, refusal } = told(failure, route, log);
      writeJson(response, status, refusal);
    }
  };
}

function told(failure: unknown, route: RouteSpec, log: Logger): HostAgentError {
  const { error, unexpected } = refusalOf(failure, route.failure);
  if (unexpected !== null) log.error({ route: route.name, code: unexpected }, "a request failed");
  return error;
}

/** `headers` stand beside those of every answer. */
export function sendRefusal(
  reply: FastifyReply,
  error: HostAgentError,
  headers: Readonly<Record<string, string>> = {},
): FastifyReply {
  return sendJson(reply, error.status, error.refusal, headers);
}

/** Past fastify, which would add a charset. */
function sendJson(
  reply: FastifyReply,
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): FastifyReply {
  reply.hijack();
  writeJson(reply.raw, status, value, headers);
  return reply;
}

/** As one string, which Node sends in one piece with the head. */
function writeJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  const text = encodeJson(value);
  response.writeHead(status, {
    "Content-Type": JSON_TYPE,
    "Content-Length": Buffer.byteLength(text),
    ...headers,
  });
  response.end(text);
}

function answerOf(route: RouteSpec, serving: RouteServing): Serve {
  const handler = serving.handlers[route.name as RouteName] as AnyHandler;
  const callOf = callReader(route, serving);
  if (route.stream === "sse") return streamed(route.name as StreamRoute, callOf, handler, serving);
  if (route.stream === "octets") return downloaded(callOf, handler, serving);
  if (route.upload) {
    return async (request, reply) => {
      const call = await callOf(request);
      const bytes = receive(request.raw, serving.limits);
      return sendJson(reply, route.status, await handler(call, bytes));
    };
  }
  return async (request, reply) =>
    sendJson(reply, route.status, await handler(await callOf(request)));
}

/** What the table of handlers says of each, without the route's own types: the declaration has checked them. */
type AnyHandler = (call: unknown, bytes?: AsyncIterable<Uint8Array>) => Promise<unknown>;
type AnyCall = { readonly [K in keyof Call<RouteName>]: unknown } & {
  readonly lastEventId: number | null;
};
type CallReader = (request: FastifyRequest) => Promise<AnyCall>;

const ASKS_NOTHING: AnyCall = Object.freeze({
  params: {},
  query: {},
  body: null,
  idempotencyKey: null,
  lastEventId: null,
});

function asksNothing({ params, query, body }: RouteSpec): boolean {
  return body === null && [params, query].every(({ shape }) => Object.keys(shape).length === 0);
}

function callReader(route: RouteSpec, { clock, limits }: RouteServing): CallReader {
  const hasParams = Object.keys(route.params.shape).length > 0;
  const hasQuery = Object.keys(route.query.shape).length > 0;
  return async ({ raw, headers, params, query }) => {
    const key = route.idempotencyKey ? headers["idempotency-key"] : undefined;
    return {
      params: hasParams ? validText(route.params, params) : {},
      query: hasQuery ? validText(route.query, query) : {},
      idempotencyKey: key === undefined ? null : validText(idempotencyKey, key),
      lastEventId: lastEventIdOf(oneOf(headers["last-event-id"])),
      body: route.body === null ? null : await bodyOf(route, route.body, raw, limits, clock),
    };
  };
}

async function bodyOf(
  { bodyOptional }: RouteSpec,
  schema: NonNullable<RouteSpec["body"]>,
  request: IncomingMessage,
  limits: BodyLimits,
  clock: Clock,
): Promise<unknown> {
  const bytes = await readBody(request, limits, clock);
  try {
    if (bytes.byteLength === 0 && bodyOptional) return validBody(schema, {});
    return validBody(schema, parseObject(bytes));
  } finally {
    // It may have held a password.
    bytes.fill(0);
  }
}

function oneOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

function streamed(
  name: StreamRoute,
  callOf: CallReader,
  handler: AnyHandler,
  { streams, log }: RouteServing,
): Serve {
  return async (request, reply) => {
    const call = await callOf(request);
    if (request.method === "HEAD") {
      return reply.code(200).header("Content-Type", "text/event-stream").send();
    }
    await streams.open(reply.raw, async () => {
      const source = (await handler(call)) as StreamSource;
      return readerOf(source, { resumed: call.lastEventId !== null });
    });
    log.debug({ route: name }, "a stream was opened");
    return reply.hijack();
  };
}

function downloaded(callOf: CallReader, handler: AnyHandler, { limits }: RouteServing): Serve {
  return async (request, reply) => {
    const call = await callOf(request);
    const download = (await handler(call)) as Download;
    reply.hijack();
    await sendDownload(reply.raw, download, limits, request.method === "HEAD");
    return reply;
  };
}
