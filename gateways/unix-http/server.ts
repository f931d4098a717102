/**
 * Owns the HTTP server of the host-agent's socket: its limits, its refusals, its end.
 *
 * 1. Every answer to a request is JSON, `{code, message}` when it is a refusal; a stream and a file excepted.
 * 2. A request's head and a JSON body are bounded in size and time; a file's bytes and a stream are not cut as long
 *    as they move.
 * 3. What of a body was not read when its request was answered is thrown away for a while, so that the answer can
 *    be read; then the connection is cut.
 * 4. Bytes behind a request that are no request are refused in their turn: whoever waits for an answer gets that
 *    one first, and then the end.
 * 5. After `close` no connection is left: what was under way could end until `graceMs` had passed.
 *
 * Source: host-agent contract ("Wire format", "Failure semantics"), wire reference 1.2 and 16.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import type { Logger } from "pino";
import type { RouteHandlers } from "../../actors/machine/handlers.ts";
import type { Clock } from "../../host/clock.ts";
import { HostAgentError, type HostAgentErrorCode } from "../../protocol/host-agent/errors.ts";
import { ALL_ROUTES } from "../../protocol/host-agent/routes.ts";
import { occasionally } from "../../supervision/occasionally.ts";
import { Pipelines } from "../http/pipeline.ts";
import { AllowedMethods } from "./allowed-methods.ts";
import { encodeJson, JSON_TYPE } from "./answers.ts";
import { sendRefusal, servePlain, serveRoute } from "./routes.ts";
import type { ListenTarget } from "./socket.ts";
import type { Streams } from "./sse.ts";

export interface UnixHttpLimits {
  readonly headBytes: number;
  /** For a request's head, from its connection or its first byte on, in ms. */
  readonly headMs: number;
  readonly bodyBytes: number;
  readonly bodyMs: number;
  /** How long a file's transfer may stand still, in ms. */
  readonly idleMs: number;
  /** How long an idle connection is kept for another request, in ms. */
  readonly keepAliveMs: number;
  /** How long the rest of a body is thrown away after its answer, in ms. */
  readonly lingerMs: number;
  /** How often the times of heads are looked at, in ms. */
  readonly checkMs: number;
  readonly connections: number;
}

const LIMITS: UnixHttpLimits = {
  headBytes: 16_384,
  headMs: 10_000,
  bodyBytes: 1_048_576,
  bodyMs: 30_000,
  idleMs: 120_000,
  keepAliveMs: 75_000,
  lingerMs: 5_000,
  checkMs: 2_000,
  connections: 1_024,
};

export interface UnixHttpOptions {
  readonly handlers: RouteHandlers;
  readonly streams: Streams;
  readonly clock: Clock;
  readonly log: Logger;
  readonly limits?: Partial<UnixHttpLimits>;
  /** Hears of each connection. */
  readonly onConnection?: (socket: Socket) => void;
}

export interface UnixHttp {
  /** Rejects with the system's own error. */
  listen(target: ListenTarget): Promise<void>;
  /**
   * Takes nothing new from here on; whatever is still under way after `graceMs`, or when `hurry` is aborted, is
   * cut. Idempotent.
   */
  close(graceMs: number, hurry?: AbortSignal): Promise<void>;
}

export async function createUnixHttp(options: UnixHttpOptions): Promise<UnixHttp> {
  const gateway = new Gateway(options);
  await gateway.ready();
  return gateway;
}

function noSchema(): never {
  throw new Error("no route has a schema of the framework's");
}

const HTTP_CODE = /^(?:HPE_|ERR_HTTP_)/;

class Gateway implements UnixHttp {
  readonly #app: FastifyInstance;
  readonly #clock: Clock;
  readonly #limits: UnixHttpLimits;
  readonly #sockets = new Set<Socket>();
  readonly #pipelines = new Pipelines();
  /** Answers of reads that ask nothing, by their paths. */
  readonly #plain = new Map<string, (response: ServerResponse) => Promise<void>>();
  readonly #allowed = new AllowedMethods(ALL_ROUTES);
  #closed: Promise<void> | null = null;

  constructor({ handlers, streams, clock, log, ...options }: UnixHttpOptions) {
    const limits = { ...LIMITS, ...options.limits };
    this.#clock = clock;
    this.#limits = limits;
    this.#app = fastify({
      logger: false,
      // Routes have their own schemas. Without these two it loads compilers for JSON Schema, some MB of them.
      schemaController: {
        compilersFactory: { buildValidator: noSchema, buildSerializer: noSchema },
      },
      exposeHeadRoutes: false,
      return503OnClosing: false,
      routerOptions: { maxParamLength: limits.headBytes },
      serverFactory: (routed) =>
        createServer(
          {
            maxHeaderSize: limits.headBytes,
            headersTimeout: limits.headMs,
            connectionsCheckingInterval: limits.checkMs,
            keepAliveTimeout: limits.keepAliveMs,
            // It would count the bytes of a file, too.
            requestTimeout: 0,
            // Its answer has no body; ours has.
            requireHostHeader: false,
          },
          (request, response) => {
            if (!this.#pipelines.admits(request, response)) return;
            if (!this.#answeredPlainly(request, response)) routed(request, response);
          },
        ),
      frameworkErrors: (_error, request, reply) => {
        if (!this.#admit(request, reply)) return;
        void sendRefusal(reply as FastifyReply, new HostAgentError("bad-request"));
      },
      clientErrorHandler: (error, socket) => this.#refuseBytes(error, socket),
    });
    const app = this.#app;
    app.removeAllContentTypeParsers();
    // Bodies are read by the routes, whatever they say they are.
    app.addContentTypeParser("*", (_request, _payload, done) => done(null));
    app.addHook("onRequest", (request, reply, done) => {
      if (this.#admit(request, reply)) done();
    });
    app.setNotFoundHandler((request, reply) => this.#notServed(request, reply));
    app.setErrorHandler((_error, _request, reply) =>
      sendRefusal(reply, new HostAgentError("internal-error")),
    );
    const serving = { handlers, streams, clock, log, limits };
    for (const route of ALL_ROUTES) {
      const plain = servePlain(route, serving);
      if (plain !== null) this.#plain.set(route.path, plain);
      app.route({
        method: route.method === "GET" ? ["GET", "HEAD"] : route.method,
        url: route.path.replaceAll(/\{(\w+)\}/g, ":$1"),
        handler: serveRoute(route, serving),
      });
    }
    const { server } = app;
    server.maxConnections = limits.connections;
    server.maxHeadersCount = 0;
    server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
      options.onConnection?.(socket);
    });
    server.on(
      "drop",
      occasionally(clock, (times) => {
        log.warn({ times }, "connection limit reached, peers were turned away");
      }),
    );
    // RFC 9110 10.1.1: an expectation one does not know may be ignored; Node's refusal would have no body.
    server.on("checkExpectation", (request, response) => server.emit("request", request, response));
    server.on("checkContinue", (request, response) => {
      askForBodyWhenRead(request, response);
      server.emit("request", request, response);
    });
    server.on("connect", (_request, socket: Socket) => {
      // From here on it is nobody else's, and an error that nobody hears would end the process.
      socket.on("error", () => socket.destroy());
      this.#refuse(socket, new HostAgentError("bad-request", { message: "this is no proxy" }));
    });
  }

  async ready(): Promise<void> {
    await this.#app.ready();
  }

  async listen(target: ListenTarget): Promise<void> {
    const { server } = this.#app;
    const listening = once(server, "listening");
    server.listen(target);
    await listening;
  }

  close(graceMs: number, hurry?: AbortSignal): Promise<void> {
    this.#closed ??= this.#close();
    const cut = (): void => {
      for (const socket of this.#sockets) socket.destroy();
    };
    const cancelCut = this.#clock.after(graceMs, cut);
    hurry?.addEventListener("abort", cut);
    if (hurry?.aborted) cut();
    void this.#closed.then(() => {
      cancelCut();
      hurry?.removeEventListener("abort", cut);
    });
    return this.#closed;
  }

  async #close(): Promise<void> {
    const { server } = this.#app;
    if (server.listening) {
      const closed = once(server, "close");
      // Closes idle connections, too, but for those that were never used: a pool may hold some in store.
      server.close();
      for (const socket of this.#sockets) {
        if (socket.bytesRead === 0) socket.destroy();
      }
      // One that is busy would be kept for another request.
      for (const socket of this.#sockets) {
        this.#pipelines.latest(socket)?.once("finish", () => socket.destroySoon());
      }
      await closed;
    }
    await this.#app.close();
  }

  get #closing(): boolean {
    return this.#closed !== null;
  }

  /** False: it is none of those, or not as plain as it could be. */
  #answeredPlainly(request: IncomingMessage, response: ServerResponse): boolean {
    const { method, url = "", headers } = request;
    const answer = method === "GET" ? this.#plain.get(url) : undefined;
    if (answer === undefined || headers.host === undefined || hasBody(request) || this.#closing) {
      return false;
    }
    void answer(response);
    return true;
  }

  /** False: it has been refused. */
  #admit(request: Pick<FastifyRequest, "raw">, reply: Pick<FastifyReply, "raw">): boolean {
    const { raw } = request;
    // What it says it is counts for nothing, and what is no media type would be refused for it.
    if (raw.headers["content-type"] !== undefined) delete raw.headers["content-type"];
    if (hasBody(raw)) this.#discardRest(raw, reply.raw);
    if (!this.#closing) {
      if (raw.headers.host !== undefined || raw.httpVersion === "1.0") return true;
      const message = "a request of HTTP/1.1 needs a Host header";
      void sendRefusal(reply as FastifyReply, new HostAgentError("bad-request", { message }));
      return false;
    }
    const refusal = new HostAgentError("shutting-down");
    void sendRefusal(reply as FastifyReply, refusal, { Connection: "close" });
    return false;
  }

  #discardRest(request: IncomingMessage, response: ServerResponse): void {
    response.once("finish", () => {
      if (request.complete) return;
      const cancelCut = this.#clock.after(this.#limits.lingerMs, () => request.socket.destroy());
      request.once("close", cancelCut);
      request.resume();
    });
  }

  /** The answer to bytes that were no request, or not soon enough. */
  #refuseBytes({ code = "" }: Error & { readonly code?: string }, socket: Socket): void {
    if (HTTP_CODE.test(code))
      this.#refuse(socket, new HostAgentError(REASONS[code] ?? "bad-request"));
    else socket.destroy();
  }

  #refuse(socket: Socket, refusal: HostAgentError): void {
    this.#pipelines.inTurn(socket, () => endWith(socket, refusal));
  }

  #notServed(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const allow = this.#allowed.at(request.raw.url ?? "");
    if (allow === null) return sendRefusal(reply, new HostAgentError("not-found"));
    return sendRefusal(reply, new HostAgentError("method-not-allowed"), { Allow: allow });
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
}

/** A client that asks first sends its body when somebody wants it, not before it may be refused (RFC 9110 10.1.1). */
function askForBodyWhenRead(request: IncomingMessage, response: ServerResponse): void {
  const read = request._read.bind(request);
  request._read = (size) => {
    request._read = read;
    if (!response.headersSent) response.writeContinue();
    read(size);
  };
}

const REASONS: Readonly<Record<string, HostAgentErrorCode>> = {
  HPE_HEADER_OVERFLOW: "headers-too-large",
  ERR_HTTP_REQUEST_TIMEOUT: "request-timeout",
};

function endWith(socket: Socket, { refusal, status }: HostAgentError): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const body = encodeJson(refusal);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_TEXT.get(status) ?? ""}\r\nConnection: close\r\n` +
      `Content-Type: ${JSON_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

const STATUS_TEXT: ReadonlyMap<number, string> = new Map([
  [400, "Bad Request"],
  [408, "Request Timeout"],
  [431, "Request Header Fields Too Large"],
]);
