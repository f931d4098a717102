/**
 * Owns a process with a vault in it that a test may kill. Forked with `serialization: "advanced"`; it says `loaded`,
 * opens its vault when it is told `{open}`, and answers each `{id, type, payload}` with `{id, answer}` or
 * `{id, code}`. `nowMs` of each message is the time from then on. After `{killAt: n}` it kills itself with SIGKILL
 * just before the n-th thing it does to the store or the disk. Each sealed value that it sends to the store it
 * notes first: the last bytes of it, as a line of hexadecimal digits in the file `sealed`.
 */
import { appendFileSync } from "node:fs";
import fsp, { type FileHandle } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { connect, type NatsConnection, nkeyAuthenticator } from "@nats-io/transport-node";
import { z } from "zod";
import { systemClock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { Secret } from "../../protocol/secret.ts";
import { takeHold } from "./placed-writes.ts";
import { type OpenVault, openVault } from "./vault-bench.ts";

const { url, storeSeed, sysSeed, directory, sealed } = z
  .object({
    url: z.string(),
    storeSeed: z.string(),
    sysSeed: z.string(),
    directory: z.string(),
    sealed: z.string(),
  })
  .parse(JSON.parse(process.argv[2] ?? ""));
const name = z.object({ name: z.string() });
const request = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("set"),
    payload: z.object({
      name: z.string(),
      text: z.string(),
      operationId: z.string().nullable(),
      provider: z.string(),
      expiresAtMs: z.number().nullable(),
    }),
  }),
  z.object({ type: z.literal("delete"), payload: name }),
  z.object({ type: z.literal("exists"), payload: name }),
  z.object({ type: z.literal("resolve"), payload: name }),
  z.object({ type: z.literal("list"), payload: z.null() }),
  z.object({ type: z.literal("status"), payload: z.null() }),
  z.object({ type: z.literal("receipt"), payload: z.object({ operationId: z.string() }) }),
  z.object({ type: z.literal("rotate"), payload: z.object({ key: z.instanceof(Uint8Array) }) }),
]);
const told = z.union([
  z.object({ killAt: z.int() }),
  z.object({ open: z.literal(true), nowMs: z.number() }),
  z.intersection(z.object({ id: z.int(), nowMs: z.number() }), request),
]);
export type VaultRequest = z.infer<typeof request>;

/** Things done until the kill comes. */
let left = Number.POSITIVE_INFINITY;
function counted(): void {
  left -= 1;
  if (left < 0) process.kill(process.pid, "SIGKILL");
}

async function countWrites(): Promise<void> {
  const handle = await fsp.open(process.execPath);
  const prototype: FileHandle = Object.getPrototypeOf(handle);
  await handle.close();
  takeHold(async (write) => {
    counted();
    return write();
  });
  const { writeFile } = prototype;
  Object.assign(prototype, {
    writeFile(this: FileHandle, ...args: Parameters<typeof writeFile>) {
      counted();
      return writeFile.apply(this, args);
    },
  });
  const { rename } = fsp;
  Object.assign(fsp, {
    rename(...args: Parameters<typeof rename>) {
      counted();
      return rename(...args);
    },
  });
  syncBuiltinESMExports();
}

const HEADER_LENGTH_BYTES = 4;
const TAIL_BYTES = 16;

function noteSealed(bytes: Uint8Array): void {
  const record = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (record.length < HEADER_LENGTH_BYTES) return;
  const ends = HEADER_LENGTH_BYTES + record.readUInt32BE();
  if (ends >= record.length) return;
  appendFileSync(sealed, `${record.subarray(-TAIL_BYTES).toString("hex")}\n`);
}

function countRequests(connection: NatsConnection): void {
  const { request, publish } = connection;
  Object.assign(connection, {
    request(...args: Parameters<typeof request>) {
      counted();
      return request.apply(connection, args);
    },
    publish(...args: Parameters<typeof publish>) {
      const [subject, payload] = args;
      counted();
      const isRecord = /^\$KV\.vault-.\.[\w-]{32}$/.test(subject);
      if (isRecord && payload instanceof Uint8Array) noteSealed(payload);
      publish.apply(connection, args);
    },
  });
}

const as = (seed: string) =>
  connect({
    servers: url,
    authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)),
    maxReconnectAttempts: -1,
    reconnectTimeWait: 5,
    reconnectJitter: 0,
  });

/** Nothing is to be mistaken for a failure only because the machine is busy. */
const PATIENCE = { putMs: 15_000, readMs: 15_000, returnMs: 15_000 };
/** So few that the records move to a new stream every some hundred steps. */
const WITNESSED_AT_MOST = 1_000;
let nowMs = 0;
const clock = { ...systemClock, nowMs: () => nowMs };

async function open(): Promise<OpenVault> {
  const [connection, sys] = await Promise.all([as(storeSeed), as(sysSeed)]);
  countRequests(connection);
  const store = { timeouts: PATIENCE, witnessedAtMost: WITNESSED_AT_MOST };
  return openVault({ connection, sys, directory }, { clock, store });
}

async function answer(vault: OpenVault, asked: VaultRequest): Promise<unknown> {
  switch (asked.type) {
    case "set": {
      const { text, ...rest } = asked.payload;
      using value = Secret.ofText(text);
      return await vault.ask("set", { ...rest, value });
    }
    case "rotate": {
      using newKey = Secret.take(Buffer.from(asked.payload.key));
      return await vault.ask("rotate", { newKey });
    }
    case "resolve":
      return vault.resolve(asked.payload.name);
    case "delete":
      return vault.ask("delete", asked.payload);
    case "exists":
      return vault.ask("exists", asked.payload);
    case "receipt":
      return vault.ask("receipt", asked.payload);
    default:
      return vault.ask(asked.type, null);
  }
}

await countWrites();
let opening: Promise<OpenVault> | null = null;

process.on("message", async (message) => {
  const asked = told.parse(message);
  if ("killAt" in asked) {
    left = asked.killAt;
    return;
  }
  ({ nowMs } = asked);
  if ("open" in asked) {
    opening = open();
    return;
  }
  const vault = await opening;
  if (vault === null) throw new Error("not open");
  const { id } = asked;
  try {
    process.send?.({ id, answer: await answer(vault, asked) });
  } catch (failure) {
    process.send?.({ id, code: failure instanceof LemonError ? failure.code : String(failure) });
  }
});
process.on("disconnect", async () => {
  await (await opening)?.[Symbol.asyncDispose]();
  process.exit();
});
process.send?.("loaded");
