/**
 * Owns a hand-written peer of `/ws`: a real server on a free loopback port that holds the client to
 * `protocol/` and does, request by request, what the test says: answer, refuse, stay silent, send
 * anything, close, drop.
 *
 * 1. Every frame of the client is read as a control plane reads it; a breach is kept in `breaches`,
 *    which a test demands to be empty.
 * 2. A scripted result is checked against the method's own schema, so that no test passes on an
 *    answer that no control plane could give. `raw` is the way to send what breaks the rules.
 */
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { LemonError } from "../../protocol/errors.ts";
import { errorFrame, POLICY, type Policy, parseRequestFrame } from "../../protocol/frames.ts";
import { METHODS, type MethodName, type ParamsOf, type ResultOf } from "../../protocol/methods.ts";
import { readParams } from "../../protocol/params.ts";
import { type Role, SCOPES_OF_ROLE } from "../../protocol/scopes.ts";

/** What a handler may answer instead of a result: nothing at all. */
export const SILENCE = Symbol("no answer");

type Answer<M extends MethodName> = ResultOf<M> | typeof SILENCE;
type Handler<M extends MethodName> = (
  params: ParamsOf<M>,
  peer: PeerConnection,
) => Answer<M> | Promise<Answer<M>>;

export interface ConnectParams {
  readonly token: string | null;
  readonly clientId: string | null;
  readonly role: unknown;
  readonly scopes: unknown;
}

/** Answers a `connect`: nothing for a welcome, or throws, or stays silent. */
type Handshake = (
  params: ConnectParams,
  peer: PeerConnection,
) => undefined | typeof SILENCE | Promise<undefined | typeof SILENCE>;

export interface SeenRequest {
  readonly method: string;
  readonly params: unknown;
  readonly connection: PeerConnection;
}

/** One client's connection, as the script sees it. */
export class PeerConnection {
  /** From 1, in the order in which they came. */
  readonly number: number;
  readonly #socket: WebSocket;
  readonly closed = Promise.withResolvers<{ readonly code: number; readonly reason: string }>();
  greeted = false;

  constructor(number: number, socket: WebSocket) {
    this.number = number;
    this.#socket = socket;
    socket.on("close", (code, reason) => this.closed.resolve({ code, reason: reason.toString() }));
  }

  /** Sends anything as one text frame. */
  raw(text: string): void {
    this.#socket.send(text);
  }

  frame(frame: unknown): void {
    this.raw(JSON.stringify(frame));
  }

  binary(bytes: Uint8Array): void {
    this.#socket.send(bytes);
  }

  close(code: number, reason = ""): void {
    this.#socket.close(code, reason);
  }

  /** Cuts the line without a closing handshake. */
  drop(): void {
    this.#socket.terminate();
  }

  /** Reads nothing more from the client: a frozen peer. */
  freeze(): void {
    this.#socket.pause();
  }
}

interface FakeOptions {
  readonly token?: string;
  readonly policy?: Partial<Policy>;
  readonly protocol?: number;
  readonly clientId?: string;
  /** What a token proves; default `operator`. */
  readonly role?: Role;
  readonly tls?: { readonly key: string; readonly cert: string };
  readonly port?: number;
}

export class FakeControlPlane {
  readonly requests: SeenRequest[] = [];
  readonly connects: ConnectParams[] = [];
  readonly breaches: string[] = [];
  readonly connections: PeerConnection[] = [];
  readonly #options: FakeOptions;
  readonly #http: HttpServer;
  readonly #ws: WebSocketServer;
  readonly #handlers = new Map<string, (params: never, peer: PeerConnection) => unknown>();
  readonly #waiting: { readonly met: () => boolean; readonly resolve: () => void }[] = [];
  #handshake: Handshake | null = null;

  /** What `/readyz` names. */
  missing: readonly string[] = [];

  static async start(options: FakeOptions = {}): Promise<FakeControlPlane> {
    const fake = new FakeControlPlane(options);
    await new Promise<void>((resolve) =>
      fake.#http.listen(options.port ?? 0, "127.0.0.1", resolve),
    );
    return fake;
  }

  private constructor(options: FakeOptions) {
    this.#options = options;
    const answer: Parameters<typeof createHttpServer>[1] = (request, response) => {
      if (request.url === "/readyz" && this.missing.length > 0) {
        response.writeHead(503, { "content-type": "application/json" });
        response.end(JSON.stringify({ error: { details: { missing: this.missing } } }));
        return;
      }
      const known = request.url === "/healthz" || request.url === "/readyz";
      response.writeHead(known ? 200 : 404, { "content-type": "application/json" });
      response.end(JSON.stringify(known ? { ok: true } : { error: { code: "NOT_FOUND" } }));
    };
    this.#http =
      options.tls === undefined
        ? createHttpServer(answer)
        : createHttpsServer({ ...options.tls }, answer);
    this.#ws = new WebSocketServer({ server: this.#http, path: "/ws" });
    this.#ws.on("connection", (socket) => this.#accept(socket));
  }

  get port(): number {
    return (this.#http.address() as AddressInfo).port;
  }

  get url(): string {
    return `${this.#options.tls === undefined ? "ws" : "wss"}://127.0.0.1:${this.port}/ws`;
  }

  /** Scripts a method; a later script replaces the earlier one. */
  on<M extends MethodName>(method: M, handler: Handler<M>): this {
    this.#handlers.set(method, handler);
    return this;
  }

  onConnect(handshake: Handshake): this {
    this.#handshake = handshake;
    return this;
  }

  count(method: MethodName): number {
    return this.requests.filter((request) => request.method === method).length;
  }

  /** Resolves when `times` requests of this method have come since the start. */
  seen(method: MethodName, times = 1): Promise<void> {
    return this.#until(() => this.count(method) >= times);
  }

  /** Resolves when `times` connections have been welcomed or refused since the start. */
  connected(times = 1): Promise<void> {
    return this.#until(() => this.connects.length >= times);
  }

  async stop(): Promise<void> {
    for (const client of this.#ws.clients) client.terminate();
    this.#ws.close();
    this.#http.closeAllConnections();
    await new Promise<void>((resolve) => this.#http.close(() => resolve()));
  }

  #until(met: () => boolean): Promise<void> {
    if (met()) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ met, resolve }));
  }

  #notify(): void {
    for (const waiting of this.#waiting.splice(0)) {
      if (waiting.met()) waiting.resolve();
      else this.#waiting.push(waiting);
    }
  }

  #accept(socket: WebSocket): void {
    const peer = new PeerConnection(this.connections.length + 1, socket);
    this.connections.push(peer);
    // A dropped line is what the tests are about.
    socket.on("error", () => {});
    socket.on("message", (data, isBinary) => {
      if (isBinary) this.breaches.push("binary frame");
      else void this.#receive(data.toString(), peer);
    });
  }

  async #receive(text: string, peer: PeerConnection): Promise<void> {
    const parsed = parseRequestFrame(text);
    if (!parsed.ok) {
      this.breaches.push(parsed.error.message);
      return;
    }
    const { id, method, params } = parsed.frame;
    try {
      if (method === "connect") await this.#connect(id, params, peer);
      else await this.#call(id, method, params, peer);
    } catch (error) {
      if (!(error instanceof LemonError)) {
        this.breaches.push(`the script failed: ${String(error)}`);
        return;
      }
      peer.frame(errorFrame(id, error, METHODS.get(method)?.effect === "mutation"));
    }
  }

  async #connect(id: string, raw: unknown, peer: PeerConnection): Promise<void> {
    if (id === "" || peer.greeted) this.breaches.push("connect twice");
    const params = connectParams(raw);
    this.connects.push(params);
    this.#notify();
    const { token, policy, protocol = 1, clientId, role = "operator" } = this.#options;
    if (token !== undefined && params.token !== token) {
      throw new LemonError("unauthorized", {
        message: params.token === null ? "Operator token is required" : "Operator token is invalid",
      });
    }
    if ((await this.#handshake?.(params, peer)) === SILENCE) return;
    peer.greeted = true;
    peer.frame({
      type: "hello-ok",
      protocol,
      server: { version: "2026.11.0", commit: null, host: "fake", connId: `conn-${peer.number}` },
      features: { methods: [...METHODS.keys()].sort(), events: ["tick"] },
      snapshot: { presence: {}, health: { ok: true } },
      policy: { ...POLICY, ...policy },
      auth: {
        role,
        scopes: SCOPES_OF_ROLE[role],
        ...(clientId === undefined ? {} : { clientId }),
      },
    });
  }

  async #call(id: string, method: string, raw: unknown, peer: PeerConnection): Promise<void> {
    const spec = METHODS.get(method);
    if (spec === undefined || !peer.greeted) {
      this.breaches.push(`unexpected ${method}`);
      throw new LemonError(spec === undefined ? "method_not_found" : "handshake_required");
    }
    const params = readParams(spec, raw);
    this.requests.push({ method, params, connection: peer });
    this.#notify();
    const handler = this.#handlers.get(method);
    if (handler === undefined) throw new LemonError("not_implemented");
    const result = await handler(params as never, peer);
    if (result === SILENCE) return;
    peer.frame({ type: "res", id, ok: true, payload: spec.result.parse(result) });
  }
}

function connectParams(raw: unknown): ConnectParams {
  const params = record(raw);
  const token = record(params["auth"])["token"];
  const clientId = record(params["client"])["id"];
  return {
    token: typeof token === "string" ? token : null,
    clientId: typeof clientId === "string" ? clientId : null,
    role: params["role"],
    scopes: params["scopes"],
  };
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
