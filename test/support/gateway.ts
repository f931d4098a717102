/**
 * Owns a whole door for tests: a real HTTP server on a free loopback port, the `/ws` gateway, sessions under
 * a real actor system, and handlers the test supplies. Everything ends with `close`.
 */

import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { systemMethods } from "../../actors/control-plane/system-methods.ts";
import { Broadcast } from "../../actors/events/broadcast.ts";
import { openEvents } from "../../actors/events/events.ts";
import { authenticator, type SessionTokens } from "../../actors/session/authenticate.ts";
import type { Authenticate, MethodHandlers, OnNode } from "../../actors/session/handler.ts";
import { Roster } from "../../actors/session/roster.ts";
import type { SessionTimes } from "../../actors/session/session.ts";
import { startSessions } from "../../actors/session/sessions.ts";
import type { HttpLimits } from "../../gateways/http/limits.ts";
import {
  type HttpServer,
  type HttpServerOptions,
  listenHttp,
  type UpgradeHandler,
} from "../../gateways/http/server.ts";
import { type WsLimits, wsGateway } from "../../gateways/ws/gateway.ts";
import { type Clock, systemClock } from "../../host/clock.ts";
import type { Policy } from "../../protocol/frames.ts";
import type { ActorSystem } from "../../supervision/actor.ts";
import { createActorSystem } from "../../supervision/system.ts";
import { type LogLines, logLines } from "./log-lines.ts";

export const OPERATOR_TOKEN = "operator-token-of-the-tests-0123456789";

type DoorOptions = Pick<HttpServerOptions, "certificate" | "trustedProxies" | "allowedOrigins">;

export interface TestGatewayOptions extends DoorOptions {
  readonly handlers?: Partial<MethodHandlers>;
  readonly authenticate?: Authenticate;
  readonly sessionTokens?: SessionTokens;
  readonly onNode?: OnNode;
  readonly allowUnauthenticatedLoopback?: boolean;
  readonly clock?: Clock;
  readonly policy?: Policy;
  readonly times?: Partial<SessionTimes>;
  readonly wsLimits?: Partial<WsLimits>;
  readonly httpLimits?: Partial<HttpLimits>;
  readonly host?: string;
  /** Tells who is connected and that time goes on, and serves the methods about events. */
  readonly announces?: boolean;
}

export interface TestGateway extends LogLines {
  readonly port: number;
  readonly http: HttpServer;
  /** `ws://127.0.0.1:<port>/ws`, or `wss:` */
  readonly url: string;
  readonly system: ActorSystem;
  readonly roster: Roster;
  readonly broadcast: Broadcast;
  /** Sockets open now. */
  connections(): number;
  /** What came to `/leafnode`, the other upgrade path. */
  readonly leafUpgrades: { readonly request: IncomingMessage; readonly socket: Duplex }[];
  /** Cuts every socket and ends the tree. */
  close(): Promise<void>;
}

export async function testGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const clock = options.clock ?? systemClock;
  const lines = logLines();
  const { log } = lines;
  const system = createActorSystem({ name: "test", log, clock });
  const { policy } = options;
  const events = options.announces
    ? await openEvents({ parent: system.root, clock, ...(policy === undefined ? {} : { policy }) })
    : { roster: new Roster(), broadcast: new Broadcast(), methods: {} };
  const { roster, broadcast } = events;
  const server = { version: "2026.1.0", commit: null, host: "test-host" };
  const sessions = await startSessions({
    parent: system.root,
    handlers: {
      ...systemMethods({
        build: { version: server.version, runtimeMode: "source-dev", channel: null, commit: null },
        clock,
        connections: () => roster.counts(),
        tree: () => system.snapshot(),
        nodeTrees: async () => [],
      }),
      ...events.methods,
      ...options.handlers,
    },
    authenticate:
      options.authenticate ??
      authenticator({
        operatorToken: OPERATOR_TOKEN,
        sessionTokens: options.sessionTokens ?? { identify: async () => null },
        allowUnauthenticatedLoopback: options.allowUnauthenticatedLoopback ?? false,
      }),
    server,
    roster,
    broadcast,
    clock,
    log,
    checkResults: true,
    ...(options.policy === undefined ? {} : { policy: options.policy }),
    ...(options.onNode === undefined ? {} : { onNode: options.onNode }),
    ...(options.times === undefined ? {} : { times: options.times }),
  });
  const gateway = wsGateway({
    open: (connection) => sessions.open(connection),
    clock,
    log,
    ...(options.policy === undefined ? {} : { policy: options.policy }),
    ...(options.wsLimits === undefined ? {} : { limits: options.wsLimits }),
  });
  const leafUpgrades: { request: IncomingMessage; socket: Duplex }[] = [];
  const leaf: UpgradeHandler = (request, socket) => {
    leafUpgrades.push({ request, socket });
    socket.end("HTTP/1.1 101 Switching Protocols\r\n\r\n");
  };
  const http = await listenHttp({
    host: options.host ?? "127.0.0.1",
    port: 0,
    clock: systemClock,
    log,
    certificate: options.certificate ?? null,
    trustedProxies: options.trustedProxies ?? [],
    allowedOrigins: options.allowedOrigins ?? [],
    ...(options.httpLimits === undefined ? {} : { limits: options.httpLimits }),
  });
  http.serve(
    new Map([
      ["/ws", gateway.upgrade],
      ["/leafnode", leaf],
    ]),
  );
  return {
    ...lines,
    http,
    port: http.port,
    url: `${options.certificate ? "wss" : "ws"}://127.0.0.1:${http.port}/ws`,
    system,
    roster,
    broadcast,
    connections: () => gateway.connections,
    leafUpgrades,
    async close() {
      const stopped = system.shutdown({ withinMs: 0 });
      // Without their sockets the sessions have nothing to wait for, also where time stands still.
      await http.close(0);
      await stopped;
    },
  };
}
