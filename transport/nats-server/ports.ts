/**
 * Owns the loopback ports of one nats-server: the same ones over restarts, so that clients find it again.
 *
 * 1. Others are taken only where somebody else has taken one meanwhile, and never while somebody holds on
 *    to these: then they are waited for.
 * 2. Who connects while a port is tried is sent away at once: a client that looks for its server must not
 *    wait here for one, nor we for it.
 */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import type { Clock } from "../../host/clock.ts";
import { writeSecureFile } from "../../host/secure-file.ts";
import type { ServerPorts } from "./config.ts";

const LOOPBACK = "127.0.0.1";
const NAMES = ["client", "leaf", "websocket"] as const;
/** How often and how far apart a taken port is looked at. */
const LOOKS = 20;
const LOOK_MS = 250;

/** Takes the ports remembered in `file` where they are free, new ones otherwise, and remembers them. */
export async function choosePorts(file: string): Promise<ServerPorts> {
  const remembered = await rememberedPorts(file);
  const held: Server[] = [];
  try {
    // All are held until the last is chosen, so that no two can be the same.
    const client = await hold(held, remembered?.client);
    const leaf = await hold(held, remembered?.leaf);
    const websocket = await hold(held, remembered?.websocket);
    const chosen: ServerPorts = { client, leaf, websocket };
    if (NAMES.some((name) => remembered?.[name] !== chosen[name])) {
      await writeSecureFile(file, `${JSON.stringify(chosen)}\n`);
    }
    return chosen;
  } finally {
    await Promise.all(held.map(release));
  }
}

/** Whether any of the ports is taken now: the reason, then, why a server could not listen. */
export async function anyTaken(ports: ServerPorts): Promise<boolean> {
  for (const name of NAMES) {
    const server = await listen(ports[name]);
    if (server === null) return true;
    await release(server);
  }
  return false;
}

/**
 * Whether all of them are free within 5 s, or until `signal`. A program that took one may need it for a moment only, as does
 * a client's own attempt that was given the port it looks for (TCP's simultaneous open, RFC 9293, 3.5).
 */
export async function comeFree(
  ports: ServerPorts,
  { clock, signal }: { readonly clock: Clock; readonly signal?: AbortSignal },
): Promise<boolean> {
  for (let look = 0; look < LOOKS && signal?.aborted !== true; look += 1) {
    // Nothing tells of a port that came free.
    await new Promise<void>((resolve) => void clock.after(LOOK_MS, resolve));
    if (!(await anyTaken(ports))) return true;
  }
  return false;
}

async function hold(held: Server[], preferred: number | undefined): Promise<number> {
  const server = (preferred === undefined ? null : await listen(preferred)) ?? (await listen(0));
  if (server === null) throw new Error("no loopback port is free");
  held.push(server);
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no TCP address");
  return address.port;
}

/** A listener on the port, or null when it is taken or not ours to take. */
async function listen(port: number): Promise<Server | null> {
  const server = createServer((client) => client.destroy());
  server.listen({ port, host: LOOPBACK, exclusive: true });
  try {
    await once(server, "listening");
    return server;
  } catch {
    return null;
  }
}

async function release(server: Server): Promise<void> {
  server.close();
  await once(server, "close");
}

/** What an earlier start chose; anything unreadable counts as nothing. */
async function rememberedPorts(file: string): Promise<ServerPorts | null> {
  try {
    const stored: unknown = JSON.parse(await readFile(file, "utf8"));
    if (typeof stored !== "object" || stored === null) return null;
    const { client, leaf, websocket } = stored as Partial<Record<keyof ServerPorts, unknown>>;
    return isPort(client) && isPort(leaf) && isPort(websocket) ? { client, leaf, websocket } : null;
  } catch {
    return null;
  }
}

function isPort(value: unknown): value is number {
  return Number.isInteger(value) && typeof value === "number" && value > 0 && value < 65_536;
}
