/**
 * Measures the door of the control plane beside a bare `ws` echo of the same size, in one run: the round trip
 * of `health`, and how many are answered a second. Each server has a process of its own.
 * `node bench/ws.ts [--json]`.
 */
import { once } from "node:events";
import { WebSocket } from "ws";
import { Report } from "./report.ts";
import { startServer, TOKEN } from "./ws-server.ts";

const ROUNDS = 5;
const ROUND_TRIPS = 4_000;
const CALLS = 40_000;
const IN_FLIGHT = 50;

async function measure(): Promise<void> {
  const servers = { lemon: await startServer("lemon"), echo: await startServer("bare ws echo") };
  const lemon = await opened(servers.lemon.url);
  // It hears no events, so that each frame is an answer.
  await answered(lemon, request("connect", { auth: { token: TOKEN } }));
  await answered(lemon, request("events.unsubscribe", {}));
  const echo = await opened(servers.echo.url);

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
  for (const server of Object.values(servers)) await server.kill();
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

await measure();
