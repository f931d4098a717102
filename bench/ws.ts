/**
 * Measures the door of the control plane beside a bare `ws` echo of the same size, in one run: the round trip
 * of `health`, and how many are answered a second. Both servers share one process, the client has its own.
 * `node bench/ws.ts [--json]`.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import pino from "pino";
import { type RawData, WebSocket, WebSocketServer } from "ws";
import { systemMethods } from "../actors/control-plane/system-methods.ts";
import { Broadcast } from "../actors/events/broadcast.ts";
import { authenticator } from "../actors/session/authenticate.ts";
import { Roster } from "../actors/session/roster.ts";
import { startSessions } from "../actors/session/sessions.ts";
import { listenHttp } from "../gateways/http/server.ts";
import { wsGateway } from "../gateways/ws/gateway.ts";
import { systemClock } from "../host/clock.ts";
import { createActorSystem } from "../supervision/system.ts";
import { Report } from "./report.ts";

const ROUNDS = 5;
const ROUND_TRIPS = 4_000;
const CALLS = 40_000;
const IN_FLIGHT = 50;
const TOKEN = "operator-token-of-the-benchmark";

interface Ports {
  readonly echo: number;
  readonly lemon: number;
}

if (process.argv[2] === "serve") await serve();
else await measure();

/** The servers' process: it tells its ports and lives until its parent lets go of it. */
async function serve(): Promise<void> {
  const echo = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
  echo.on("connection", (socket) => {
    socket.on("message", (data: RawData) => socket.send(String(data)));
  });
  await once(echo, "listening");

  const log = pino({ level: "warn" });
  const system = createActorSystem({ name: "bench", log, clock: systemClock });
  const roster = new Roster();
  const version = "bench";
  const sessions = await startSessions({
    parent: system.root,
    handlers: systemMethods({
      build: { version, runtimeMode: "source-dev", channel: null, commit: null },
      clock: systemClock,
      connections: () => roster.counts(),
      tree: () => system.snapshot(),
      nodeTrees: async () => [],
    }),
    authenticate: authenticator({
      operatorToken: TOKEN,
      sessionTokens: { identify: async () => null },
      allowUnauthenticatedLoopback: false,
    }),
    server: { version, commit: null, host: "bench" },
    roster,
    broadcast: new Broadcast(),
    log,
  });
  const http = await listenHttp({ host: "127.0.0.1", port: 0, clock: systemClock, log });
  const gateway = wsGateway({ open: sessions.open, clock: systemClock, log });
  http.serve(new Map([["/ws", gateway.upgrade]]));

  const address = echo.address() as AddressInfo;
  process.send?.({ echo: address.port, lemon: http.port } satisfies Ports);
  process.once("disconnect", () => process.exit());
}

async function measure(): Promise<void> {
  const server = fork(new URL(import.meta.url), ["serve"]);
  const ports = await portsOf(server);
  const lemon = await opened(`ws://127.0.0.1:${ports.lemon}/ws`);
  await answered(lemon, request("connect", { auth: { token: TOKEN } }));
  const echo = await opened(`ws://127.0.0.1:${ports.echo}`);

  const health = request("health", {});
  const subjects = [
    // What comes back is what is compared, so the echo is given an answer of ours to send.
    { name: "bare ws echo", socket: echo, text: await answered(lemon, health) },
    { name: "lemon health", socket: lemon, text: health },
  ];
  const report = new Report("ws");
  // Round by round, so that a busy moment of the machine falls on both alike. Round 0 warms up.
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const { name, socket, text } of subjects) {
      const ours = name === "lemon health";
      for (const us of await roundTrips(socket, text)) {
        if (round === 0) continue;
        report.sample(`${name}: round trip`, us, {
          unit: "µs",
          ...(ours ? { of: "bare ws echo: round trip", atMost: 2.5 } : {}),
        });
      }
      const rate = await perSecond(socket, text);
      if (round === 0) continue;
      report.sample(`${name}: ${IN_FLIGHT} in flight`, rate, {
        unit: "/s",
        ...(ours ? { of: `bare ws echo: ${IN_FLIGHT} in flight`, atLeast: 0.5 } : {}),
      });
    }
  }
  report.print();
  for (const { socket } of subjects) socket.terminate();
  server.disconnect();
}

async function portsOf(server: ChildProcess): Promise<Ports> {
  const [ports] = await once(server, "message");
  return ports;
}

async function opened(url: string): Promise<WebSocket> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  await once(socket, "open");
  return socket;
}

function request(method: string, params: object): string {
  return JSON.stringify({ type: "req", id: "1", method, params });
}

async function answered(socket: WebSocket, text: string): Promise<string> {
  const answer = once(socket, "message");
  socket.send(text);
  return String((await answer)[0]);
}

/** One at a time; each in µs. */
function roundTrips(socket: WebSocket, text: string): Promise<number[]> {
  const times: number[] = [];
  return new Promise((resolve) => {
    let sentAtMs = performance.now();
    const onMessage = (): void => {
      times.push((performance.now() - sentAtMs) * 1_000);
      if (times.length < ROUND_TRIPS) {
        sentAtMs = performance.now();
        socket.send(text);
      } else {
        socket.off("message", onMessage);
        resolve(times);
      }
    };
    socket.on("message", onMessage);
    socket.send(text);
  });
}

/** Answers a second while so many are under way. */
async function perSecond(socket: WebSocket, text: string): Promise<number> {
  const startedAtMs = performance.now();
  await new Promise<void>((resolve) => {
    let sent = 0;
    let got = 0;
    const send = (): void => {
      sent += 1;
      socket.send(text);
    };
    const onMessage = (): void => {
      got += 1;
      if (sent < CALLS) send();
      if (got < CALLS) return;
      socket.off("message", onMessage);
      resolve();
    };
    socket.on("message", onMessage);
    while (sent < IN_FLIGHT) send();
  });
  return (CALLS * 1_000) / (performance.now() - startedAtMs);
}
