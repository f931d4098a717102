/**
 * Measures many connections at once beside a bare `ws`, each server in a process of its own:
 * what an idle authenticated connection costs in memory; calls a second over 200 connections with 50 in
 * flight on each; the time for 1,000 clients of the SDK to be back after the server was killed.
 * `node bench/connections.ts [--json]`. It needs 20,000 descriptors (`ulimit -n`).
 */
import { once } from "node:events";
import { WebSocket } from "ws";
import { connect } from "../client/index.ts";
import { socketOpener } from "../client/node/socket.ts";
import { Report } from "./report.ts";
import { type MeasuredServer, type Subject, startServer, TOKEN } from "./ws-server.ts";

const IDLE = 10_000;
/** Sockets that are being opened at a time. */
const OPENING = 200;
const BUSY = 200;
const IN_FLIGHT = 50;
const CALLS_EACH = 500;
const ROUNDS = 3;
const RETURNING = 1_000;

const SUBJECTS: readonly Subject[] = ["bare ws echo", "lemon"];
const CONNECT = JSON.stringify({
  type: "req",
  id: "c",
  method: "connect",
  params: { auth: { token: TOKEN } },
});
/** Nothing but answers from then on, so that they can be counted. */
const SILENCE = JSON.stringify({ type: "req", id: "s", method: "events.unsubscribe" });
const HEALTH = JSON.stringify({ type: "req", id: "h", method: "health" });

async function answered(socket: WebSocket, text: string): Promise<string> {
  const answer = once(socket, "message");
  socket.send(text);
  return String((await answer)[0]);
}

async function opened({ url }: MeasuredServer, subject: Subject): Promise<WebSocket> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  await once(socket, "open");
  if (subject === "lemon") {
    await answered(socket, CONNECT);
    await answered(socket, SILENCE);
  }
  return socket;
}

async function openedMany(server: MeasuredServer, subject: Subject, count: number) {
  const sockets: WebSocket[] = [];
  while (sockets.length < count) {
    const some = Array.from({ length: Math.min(OPENING, count - sockets.length) }, () =>
      opened(server, subject),
    );
    sockets.push(...(await Promise.all(some)));
  }
  return sockets;
}

async function memory(report: Report, subject: Subject): Promise<void> {
  const server = await startServer(subject);
  // The first ones bring code and pools that the others share.
  const warm = await openedMany(server, subject, OPENING);
  const before = await server.memoryBytes();
  const sockets = await openedMany(server, subject, IDLE);
  const each = ((await server.memoryBytes()) - before) / IDLE;
  report.sample(`${subject}: an idle connection`, each, {
    unit: "B",
    ...(subject === "lemon" ? { of: "bare ws echo: an idle connection" } : {}),
  });
  for (const socket of [...warm, ...sockets]) socket.terminate();
  await server.kill();
}

/** Answers a second over all sockets together. */
async function rate(sockets: readonly WebSocket[], text: string): Promise<number> {
  const startedAtMs = performance.now();
  await Promise.all(
    sockets.map(
      (socket) =>
        new Promise<void>((resolve) => {
          let sent = 0;
          let got = 0;
          const onMessage = (): void => {
            got += 1;
            if (sent < CALLS_EACH) send();
            if (got < CALLS_EACH) return;
            socket.off("message", onMessage);
            resolve();
          };
          const send = (): void => {
            sent += 1;
            socket.send(text);
          };
          socket.on("message", onMessage);
          while (sent < IN_FLIGHT) send();
        }),
    ),
  );
  return (sockets.length * CALLS_EACH * 1_000) / (performance.now() - startedAtMs);
}

async function throughput(report: Report): Promise<void> {
  const servers = await Promise.all(SUBJECTS.map((subject) => startServer(subject)));
  const groups = await Promise.all(
    servers.map((server, n) => openedMany(server, SUBJECTS[n] ?? "lemon", BUSY)),
  );
  const [first] = groups[1] ?? [];
  if (first === undefined) throw new Error("no connection");
  // What comes back is what is compared, so the echo is given an answer of ours to send.
  const texts = [await answered(first, HEALTH), HEALTH];
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [n, sockets] of groups.entries()) {
      const perSecond = await rate(sockets, texts[n] ?? HEALTH);
      if (round === 0) continue;
      const isOurs = SUBJECTS[n] === "lemon";
      report.sample(`${SUBJECTS[n]}: ${BUSY} connections, ${IN_FLIGHT} in flight`, perSecond, {
        unit: "/s",
        ...(isOurs
          ? { of: `bare ws echo: ${BUSY} connections, ${IN_FLIGHT} in flight`, atLeast: 0.5 }
          : {}),
      });
    }
  }
  for (const socket of groups.flat()) socket.terminate();
  for (const server of servers) await server.kill();
}

/** How long all clients take to be back, from when the server listens again. */
async function comeBack(report: Report): Promise<void> {
  let server = await startServer("lemon");
  const { url, port } = server;
  const openSocket = socketOpener();
  const clients = await Promise.all(
    Array.from({ length: RETURNING }, (_, n) =>
      connect({ url, token: TOKEN, clientId: `bench-${n}`, reconnect: true, openSocket }),
    ),
  );
  for (let round = 0; round < ROUNDS; round += 1) {
    const cut = Promise.all(
      clients.map((client) => new Promise<void>((resolve) => client.onClose(() => resolve()))),
    );
    await server.kill();
    await cut;
    server = await startServer("lemon", port);
    const startedAtMs = performance.now();
    await Promise.all(clients.map((client) => client.ready()));
    report.sample(`${RETURNING} clients back after a kill`, performance.now() - startedAtMs, {
      unit: "ms",
    });
  }
  for (const client of clients) client.close();
  await server.kill();
}

const report = new Report("connections");
for (const subject of SUBJECTS) await memory(report, subject);
await throughput(report);
await comeBack(report);
report.print();
