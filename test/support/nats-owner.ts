/**
 * A process that owns a nats-server, for tests that kill the owner. Started with the server's folder;
 * at the line `start` on its stdin it starts the server, and prints `{pid, clientUrl}` when it serves.
 */
import { createInterface } from "node:readline";
import { createUser } from "@nats-io/nkeys";
import pino from "pino";
import { systemClock } from "../../host/clock.ts";
import { nodeConfig } from "../../transport/nats-server/config.ts";
import { startNatsServer } from "../../transport/nats-server/server.ts";
import { natsServerBinary } from "./nats.ts";

const [, , directory = ""] = process.argv;
const binary = await natsServerBinary();
const storeUser = createUser().getPublicKey();
const sysUser = createUser().getPublicKey();
const spec = {
  binary,
  directory,
  config: (places: Parameters<typeof nodeConfig>[1]) =>
    nodeConfig({ serverName: "owned", domain: "test", storeUser, sysUser }, places),
};

for await (const line of createInterface({ input: process.stdin })) {
  if (line !== "start") break;
  const server = await startNatsServer(spec, { clock: systemClock, log: pino({ enabled: false }) });
  console.log(JSON.stringify({ pid: server.pid, clientUrl: server.clientUrl }));
}
