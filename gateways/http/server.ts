/**
 * Owns the one listening port of a control plane: plain requests, and the dispatch of upgrades to those
 * who serve them. No rule of the domain lives here.
 *
 * 1. An upgrade reaches a handler by its exact path alone, and only after `serve`; every other one is
 *    answered and closed.
 * 2. A peer that dawdles over its request head is cut; no body is ever kept.
 * 3. After `close` no socket of this port is left.
 *
 * Source: control-plane-wire.md 1.1 and 4 (first table), system-methods.md, rulings ("Listening").
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Duplex } from "node:stream";
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { type HttpAnswer, jsonAnswer, refusal, sendAnswer, sendOnSocket } from "./answer.ts";
import { occasionally } from "./occasionally.ts";

/** Serves one upgrade path. It owns the socket from the call on, errors included. */
export type UpgradeHandler = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

export interface HttpServerOptions {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly limits?: Partial<HttpLimits>;
}

export interface HttpLimits {
  /** Time a peer has for its request head, from the opening of its connection, in ms. */
  readonly headMs: number;
  /** Time for a whole request, in ms. */
  readonly requestMs: number;
  /** How long an idle connection is kept for another request, in ms. */
  readonly keepAliveMs: number;
  /** How often the times above are looked at, in ms. */
  readonly checkMs: number;
  readonly headBytes: number;
  /** Sockets of every kind at once; the next one is closed as it comes. */
  readonly connections: number;
}

const LIMITS: HttpLimits = {
  headMs: 10_000,
  requestMs: 15_000,
  keepAliveMs: 5_000,
  checkMs: 2_000,
  headBytes: 16_384,
  // The sessions' own limit, with room for node links and probes beside them.
  connections: 12_288,
};

export interface HttpServer {
  /** The port listened on, also when it was asked for as 0. */
  readonly port: number;
  /** Until this is called every request is answered 503: the port is known before its services are. */
  serve(upgrades: ReadonlyMap<string, UpgradeHandler>): void;
  /** Stops listening at once; whoever is still connected after `graceMs` is cut. */
  close(graceMs?: number): Promise<void>;
}

const DEFAULT_GRACE_MS = 1_000;
/** Everybody comes back at once after a restart; Node's own 511 would make most of them wait a second. */
const BACKLOG = 4_096;

/** Listens. Errors: `port_in_use`, `listen_refused`. */
export async function listenHttp(options: HttpServerOptions): Promise<HttpServer> {
  const port = new Port(options);
  await port.listen(options.host, options.port);
  return port;
}

class Port implements HttpServer {
  readonly #server: Server;
  readonly #clock: Clock;
  readonly #log: Logger;
  /** Sockets that left HTTP; the server knows of them no longer. */
  readonly #upgraded = new Set<Duplex>();
  #upgrades: ReadonlyMap<string, UpgradeHandler> | null = null;
  #port = 0;

  constructor({ clock, log, ...options }: HttpServerOptions) {
    const limits = { ...LIMITS, ...options.limits };
    this.#clock = clock;
    this.#log = log;
    this.#server = createServer({
      maxHeaderSize: limits.headBytes,
      headersTimeout: limits.headMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: limits.checkMs,
    });
    this.#server.maxConnections = limits.connections;
    // By default Node drops, without a word, what comes after the 2,000th header: a peer could hide an
    // `X-Forwarded-For` behind 2,000 others. The size of the head bounds their number already.
    this.#server.maxHeadersCount = 0;
    this.#server.on("request", (request, response) => {
      sendAnswer(response, this.#answerTo(request), request.method !== "HEAD");
    });
    this.#server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
    this.#server.on("clientError", (error, socket) => sendOnSocket(socket, unreadable(error)));
    const turnedAway = occasionally(clock, (times) => {
      log.warn({ times }, "connection limit reached, peers were turned away");
    });
    this.#server.on("drop", turnedAway);
  }

  get port(): number {
    return this.#port;
  }

  async listen(host: string, port: number): Promise<void> {
    try {
      const listening = once(this.#server, "listening");
      this.#server.listen({ host, port, backlog: BACKLOG });
      await listening;
    } catch (failure) {
      throw listenFailure(failure, host, port);
    }
    const address = this.#server.address();
    if (typeof address === "object") this.#port = address?.port ?? 0;
    // A connection could not be accepted: without a listener that would end the process.
    const failed = occasionally(this.#clock, (times) => {
      this.#log.error({ times }, "connections could not be accepted");
    });
    this.#server.on("error", failed);
  }

  serve(upgrades: ReadonlyMap<string, UpgradeHandler>): void {
    this.#upgrades = upgrades;
  }

  async close(graceMs = DEFAULT_GRACE_MS): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    const cancelCut = this.#clock.after(graceMs, () => {
      this.#server.closeAllConnections();
      for (const socket of this.#upgraded) socket.destroy();
    });
    await closed;
    cancelCut();
  }

  #answerTo(request: IncomingMessage): HttpAnswer {
    if (this.#upgrades === null) return STARTING;
    const path = pathOf(request);
    if (path === "/healthz") return isRead(request) ? HEALTHY : methodNotAllowed("GET, HEAD");
    if (!this.#upgrades.has(path)) return NOT_FOUND;
    return request.method === "GET" ? UPGRADE_REQUIRED : methodNotAllowed("GET");
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Node takes its own listeners away, and an error nobody listens to would end the process.
    socket.on("error", () => socket.destroy());
    this.#upgraded.add(socket);
    socket.once("close", () => this.#upgraded.delete(socket));

    if (request.headers.upgrade?.toLowerCase() !== "websocket") {
      // RFC 9110 7.8: an upgrade one does not offer (curl asks for h2c) may be ignored.
      const answer = this.#answerTo(request);
      sendOnSocket(socket, request.method === "HEAD" ? { ...answer, body: "" } : answer);
      return;
    }
    const serve = this.#upgrades?.get(pathOf(request));
    if (serve !== undefined) serve(request, socket, head);
    else sendOnSocket(socket, this.#upgrades === null ? STARTING : NOT_FOUND);
  }
}

const HEALTHY = jsonAnswer(200, { ok: true });
const NOT_FOUND = refusal(404, "NOT_FOUND", "Nothing is served here");
const STARTING = refusal(503, "UNAVAILABLE", "The control plane is starting", {
  "Retry-After": "1",
});
const UPGRADE_REQUIRED = refusal(426, "INVALID_REQUEST", "This path serves WebSocket connections", {
  Upgrade: "websocket",
  Connection: "Upgrade",
});

function methodNotAllowed(allow: string): HttpAnswer {
  return refusal(405, "INVALID_REQUEST", "The method is not allowed here", { Allow: allow });
}

function isRead(request: IncomingMessage): boolean {
  return request.method === "GET" || request.method === "HEAD";
}

/** The path as it was sent, without its query: nothing is decoded or normalised, so it matches or it does not. */
function pathOf(request: IncomingMessage): string {
  return request.url?.split("?", 1)[0] ?? "";
}

/** The answer to bytes that were no request, or not soon enough. */
function unreadable(error: Error): HttpAnswer {
  switch (errnoOf(error)) {
    case "HPE_HEADER_OVERFLOW":
      return refusal(431, "INVALID_REQUEST", "The request head is too large");
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return refusal(408, "TIMEOUT", "The request did not come in time");
    default:
      return refusal(400, "INVALID_REQUEST", "This is no HTTP request");
  }
}

function errnoOf(failure: unknown): unknown {
  return failure instanceof Error && "code" in failure ? failure.code : undefined;
}

function listenFailure(failure: unknown, host: string, port: number): LemonError {
  const errno = errnoOf(failure);
  if (errno === "EADDRINUSE") {
    return new LemonError("port_in_use", {
      message: `Port ${port} is already in use on ${host}; stop what listens there or choose another with --port`,
      cause: failure,
    });
  }
  return new LemonError("listen_refused", {
    message: `Can not listen on ${host} port ${port} (${String(errno ?? "unknown")}); check --host and --port`,
    cause: failure,
  });
}
