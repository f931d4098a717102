/**
 * Owns the servers that the benchmarks of `/ws` measure, each in a process of its own: the door of the
 * control plane with its sessions and events, and a bare `ws` echo beside it. Started with `startServer`.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import pino from "pino";
import { type RawData, WebSocketServer } from "ws";
import { systemMethods } from "../actors/control-plane/system-methods.ts";
import { openEvents } from "../actors/events/events.ts";
import { authenticator } from "../actors/session/authenticate.ts";
import { startSessions } from "../actors/session/sessions.ts";
import { listenHttp } from "../gateways/http/server.ts";
import { wsGateway } from "../gateways/ws/gateway.ts";
import { systemClock } from "../host/clock.ts";
import { createActorSystem } from "../supervision/system.ts";

export const TOKEN = "operator-token-of-the-benchmark";

export type Subject = "bare ws echo" | "lemon";

export interface MeasuredServer {
  readonly url: string;
  readonly port: number;
  /** Resident memory after a full collection, in bytes. */
  memoryBytes(): Promise<number>;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
}

/** `port` 0 for any free one. */
export async function startServer(subject: Subject, port = 0): Promise<MeasuredServer> {
  const child: ChildProcess = fork(new URL(import.meta.url), [subject, String(port)], {
    execArgv: ["--expose-gc"],
  });
  const [listening] = await once(child, "message");
  return {
    url: `ws://127.0.0.1:${listening}/ws`,
    port: listening,
    async memoryBytes() {
      const answer = once(child, "message");
      child.send("memory");
      return (await answer)[0];
    },
    async kill() {
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    },
  };
}

if (import.meta.main) await serve(process.argv[2], Number(process.argv[3]));

/** Tells its port, then its memory whenever it is asked; lives until its parent lets go of it. */
async function serve(subject: string | undefined, port: number): Promise<void> {
  const listening = subject === "lemon" ? await serveLemon(port) : await serveEcho(port);
  process.on("message", () => {
    globalThis.gc?.();
    process.send?.(process.memoryUsage.rss());
  });
  process.once("disconnect", () => process.exit());
  process.send?.(listening);
}

async function serveEcho(port: number): Promise<number> {
  const backlog = 4_096;
  const echo = new WebSocketServer({ host: "127.0.0.1", port, backlog, perMessageDeflate: false });
  echo.on("connection", (socket) => {
    socket.on("message", (data: RawData) => socket.send(String(data)));
  });
  await once(echo, "listening");
  return (echo.address() as AddressInfo).port;
}

async function serveLemon(port: number): Promise<number> {
  const clock = systemClock;
  const log = pino({ level: "warn" });
  const system = createActorSystem({ name: "bench", log, clock });
  const { broadcast, roster, methods } = await openEvents({ parent: system.root, clock });
  const version = "bench";
  const sessions = await startSessions({
    parent: system.root,
    handlers: {
      ...methods,
      ...systemMethods({
        build: { version, runtimeMode: "source-dev", channel: null, commit: null },
        clock,
        connections: () => roster.counts(),
        tree: () => system.snapshot(),
        nodeTrees: async () => [],
      }),
    },
    authenticate: authenticator({
      operatorToken: TOKEN,
      sessionTokens: { identify: async () => null },
      allowUnauthenticatedLoopback: false,
    }),
    server: { version, commit: null, host: "bench" },
    roster,
    broadcast,
    clock: systemClock,
    log,
  });
  const http = await listenHttp({ host: "127.0.0.1", port, clock, log });
  const gateway = wsGateway({ open: sessions.open, clock, log });
  http.serve(new Map([["/ws", gateway.upgrade]]));
  return http.port;
}
