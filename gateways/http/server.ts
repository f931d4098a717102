/**
 * Owns the one listening port of a control plane, with TLS or without: plain requests, and the dispatch of
 * upgrades to those who serve them. No rule of the domain lives here.
 *
 * 1. An upgrade reaches a handler by its exact path alone, and only after `serve`; every other one is
 *    answered and closed, and so is one from a page that may not enter.
 * 2. A peer that dawdles over its TLS handshake or its request head is cut; no body is ever kept.
 * 3. Connections are bounded in all, and for each address they come from; and so is what waits on each.
 * 4. After `close` no socket of this port is left.
 *
 * Source: control-plane-wire.md 1.1 and 4 (first table), system-methods.md, rulings ("Listening").
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer, type Server as TlsServer } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Logger } from "pino";
import type { OpenSpace } from "../../actors/session/spaces.ts";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { type GuardedSpace, guardedSpaceOf } from "../../protocol/http.ts";
import { occasionally } from "../../supervision/occasionally.ts";
import { AddressCounts } from "./addresses.ts";
import { Admission } from "./admission.ts";
import { type HttpAnswer, sendAnswer, sendOnSocket } from "./answer.ts";
import { type ServerCertificate, secureContextOptions } from "./certificate.ts";
import {
  HEALTHY,
  METHOD_NOT_ALLOWED,
  NO_TUNNEL,
  NOT_FOUND,
  readiness,
  refused,
  UPGRADE_REQUIRED,
  unreadable,
} from "./fixed-answers.ts";
import { refusalAt } from "./guard.ts";
import { type HttpLimits, LIMITS } from "./limits.ts";
import { listenFailure } from "./listen-failure.ts";
import type { Peer } from "./peer.ts";
import { Pipelines } from "./pipeline.ts";
import { type Network, TrustedProxies } from "./proxies.ts";

/** Serves one upgrade path. It owns the socket from the call on, errors included. */
export type UpgradeHandler = (
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  peer: Peer,
) => void;

export interface HttpServerOptions {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** Null, which is the default: no TLS. */
  readonly certificate?: ServerCertificate | null;
  /** Whose word counts about who calls. Default: nobody's. */
  readonly trustedProxies?: readonly Network[];
  /** Pages that may enter besides our own, as `parseOrigin` gives them. Default: none. */
  readonly allowedOrigins?: readonly string[];
  readonly limits?: Partial<HttpLimits>;
}

/** Names what the services lack to do their work now; nothing when they can. Asked by each `/readyz`. */
export type MissingParts = () => readonly string[];

export interface HttpServer {
  /** The port listened on, also when it was asked for as 0. */
  readonly port: number;
  /** Until this is called every request is answered 503: the port is known before its services are. */
  serve(
    upgrades: ReadonlyMap<string, UpgradeHandler>,
    missing?: MissingParts,
    openSpace?: OpenSpace,
  ): void;
  /** Shows another certificate from the next connection on; those that stand go on. Only with TLS. */
  renew(certificate: ServerCertificate): void;
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
  readonly #server: Server | TlsServer;
  readonly #secure: boolean;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #admission: Admission;
  /** As the system gave them: with TLS they are below those that requests and upgrades know. */
  readonly #sockets = new Set<Socket>();
  readonly #pipelines = new Pipelines();
  #upgrades: ReadonlyMap<string, UpgradeHandler> | null = null;
  #missing: MissingParts = () => [];
  #openSpace: OpenSpace = nobody;
  #port = 0;

  constructor({ clock, log, ...options }: HttpServerOptions) {
    const limits = { ...LIMITS, ...options.limits };
    const { certificate = null, trustedProxies = [], allowedOrigins = [] } = options;
    this.#clock = clock;
    this.#log = log;
    this.#secure = certificate !== null;
    this.#admission = new Admission({
      secure: this.#secure,
      proxies: new TrustedProxies(trustedProxies),
      allowedOrigins: new Set(allowedOrigins),
      addresses: new AddressCounts(limits),
      onCrowded: occasionally(clock, (times) => {
        log.warn({ times }, "connection limit of one address reached, its peers were turned away");
      }),
    });
    const times = {
      maxHeaderSize: limits.headBytes,
      headersTimeout: limits.headMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: limits.checkMs,
    };
    this.#server =
      certificate === null
        ? createServer(times)
        : createTlsServer({
            ...times,
            ...secureContextOptions(certificate),
            handshakeTimeout: limits.tlsHandshakeMs,
          });
    this.#server.maxConnections = limits.connections;
    // By default Node drops, without a word, what comes after the 2,000th header: a peer could hide an
    // `X-Forwarded-For` behind 2,000 others. The size of the head bounds their number already.
    this.#server.maxHeadersCount = 0;
    this.#server.on("connection", (socket: Socket) => this.#accepted(socket));
    this.#server.on("request", (request, response) => void this.#request(request, response));
    // Nothing here depends on what is expected, and Node's own 417 has no envelope (RFC 9110 10.1.1: MAY).
    this.#server.on(
      "checkExpectation",
      (request, response) => void this.#request(request, response),
    );
    this.#server.on("upgrade", (request, socket, head) => {
      // Node takes its own listeners away, and an error nobody listens to would end the process.
      socket.on("error", () => socket.destroy());
      this.#pipelines.inTurn(socket, () => this.#upgrade(request, socket, head));
    });
    // Without a listener Node cuts the socket without a word.
    this.#server.on("connect", (_request, socket) => {
      socket.on("error", () => socket.destroy());
      const answer = this.#upgrades === null ? refused("starting") : NO_TUNNEL;
      this.#pipelines.inTurn(socket, () => sendOnSocket(socket, answer));
    });
    this.#server.on("clientError", (error, socket) => {
      const answer = unreadable(error);
      if (answer === null) socket.destroy();
      else this.#pipelines.inTurn(socket, () => sendOnSocket(socket, answer));
    });
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

  serve(
    upgrades: ReadonlyMap<string, UpgradeHandler>,
    missing: MissingParts = () => [],
    openSpace: OpenSpace = nobody,
  ): void {
    this.#upgrades = upgrades;
    this.#missing = missing;
    this.#openSpace = openSpace;
  }

  renew(certificate: ServerCertificate): void {
    if ("setSecureContext" in this.#server) {
      this.#server.setSecureContext(secureContextOptions(certificate));
    }
  }

  async close(graceMs = DEFAULT_GRACE_MS): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    const cancelCut = this.#clock.after(graceMs, () => {
      for (const socket of this.#sockets) socket.destroy();
    });
    await closed;
    cancelCut();
  }

  #accepted(socket: Socket): void {
    if (!this.#admission.accept(socket)) return;
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }

  async #request(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!this.#pipelines.admits(request, response)) return;
    if (this.#secure && !isLocalhost(request)) response.setHeader(...STRICT_TRANSPORT);
    sendAnswer(response, await this.#answerTo(request), request.method !== "HEAD");
  }

  async #answerTo(request: IncomingMessage): Promise<HttpAnswer> {
    const path = pathOf(request);
    const space = guardedSpaceOf(path);
    if (this.#upgrades === null) return refused("starting", space);
    if (space !== null) {
      return (await this.#refusalAt(space, request)) ?? refused("not_found", space);
    }
    const isProbe = path === "/healthz" || path === "/readyz";
    if (!isProbe && !this.#upgrades.has(path)) return refused("not_found");
    if (!isRead(request)) return METHOD_NOT_ALLOWED;
    if (!isProbe) return UPGRADE_REQUIRED;
    return path === "/healthz" ? HEALTHY : readiness(this.#missing());
  }

  async #refusalAt(space: GuardedSpace, request: IncomingMessage): Promise<HttpAnswer | null> {
    const caller = this.#admission.callerOf(request);
    if (caller === null) return refused("contradicting_proxy", space);
    return refusalAt(space, request, caller, this.#openSpace);
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const serve = this.#upgrades?.get(pathOf(request));
    // RFC 9110 7.8: an upgrade one does not offer (curl asks for h2c) may be ignored.
    if (serve === undefined || !isUpgradeToWebSocket(request)) {
      void this.#answerOnSocket(request, socket);
      return;
    }
    const peer = this.#admission.admit(request, socket);
    if ("remoteAddress" in peer) serve(request, socket, head, peer);
    else sendOnSocket(socket, peer);
  }

  async #answerOnSocket(request: IncomingMessage, socket: Duplex): Promise<void> {
    let answer = await this.#answerTo(request);
    // Any other path of a WebSocket is 404, also where something else is served (control-plane-wire.md 1.1).
    if (answer.status < 400 && isUpgradeToWebSocket(request)) answer = NOT_FOUND;
    sendOnSocket(socket, request.method === "HEAD" ? { ...answer, body: "" } : answer);
  }
}

/** Until somebody says whose tokens open them, the guarded spaces are closed. */
const nobody: OpenSpace = () => Promise.reject(new LemonError("unauthorized"));

/** RFC 6455 4.1: it is a GET, whatever else asks for it is a request like any other. */
function isUpgradeToWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket";
}

function isRead(request: IncomingMessage): boolean {
  return request.method === "GET" || request.method === "HEAD";
}

/** The path as it was sent, without its query: nothing is decoded or normalised, so it matches or it does not. */
function pathOf(request: IncomingMessage): string {
  return request.url?.split("?", 1)[0] ?? "";
}

/** RFC 6797: a year without plain HTTP to this name; its subdomains are their owners' business. */
const STRICT_TRANSPORT = ["Strict-Transport-Security", "max-age=31536000"] as const;

/** The rule above binds a name with all its ports: under this one it would break what else its user runs. */
function isLocalhost({ headers }: IncomingMessage): boolean {
  return /^localhost(?::|$)/i.test(headers.host ?? "");
}
