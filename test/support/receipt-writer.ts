/**
 * Owns a process that a test may kill while it stores receipts. Forked with `serialization: "advanced"`.
 * It says `ready` once its store is open, `wrote` after each write to its witness, and answers each
 * `{admit: id}` and `{end: id}` with `{id, outcome, witnessed}` (the code of the error when it was
 * refused). After `{hold: n}` it makes n writes more, then says `held` instead of the next one.
 */
import { connect, nkeyAuthenticator } from "@nats-io/transport-node";
import pino from "pino";
import { z } from "zod";
import { systemClock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { openReceiptStore } from "../../transport/receipts/open.ts";
import type { Receipt } from "../../transport/receipts/receipt.ts";
import { takeHold } from "./placed-writes.ts";
import { done, running, type WorkState, work } from "./receipts.ts";

const { storeUrl, sysUrl, storeSeed, sysSeed, directory, generation } = z
  .object({
    storeUrl: z.string(),
    sysUrl: z.string(),
    storeSeed: z.string(),
    sysSeed: z.string(),
    directory: z.string(),
    generation: z.int(),
  })
  .parse(JSON.parse(process.argv[2] ?? ""));
const command = z.union([
  z.object({ admit: z.string() }),
  z.object({ end: z.string() }),
  z.object({ hold: z.int() }),
]);

/** Writes to the witness that are still made. */
let writesLeft = Number.POSITIVE_INFINITY;

function holdWrites(): void {
  takeHold(async (write) => {
    writesLeft -= 1;
    if (writesLeft < 0) {
      process.send?.("held");
      return new Promise(() => {});
    }
    const written = await write();
    process.send?.("wrote");
    return written;
  });
}

const as = (servers: string, seed: string) =>
  connect({
    servers,
    authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)),
    maxReconnectAttempts: -1,
    reconnectTimeWait: 20,
    reconnectJitter: 0,
  });

const store = await openReceiptStore<WorkState>({
  kind: work(),
  connection: await as(storeUrl, storeSeed),
  sys: await as(sysUrl, sysSeed),
  directory,
  generation,
  clock: systemClock,
  log: pino({ enabled: false }),
});
holdWrites();
const receipts = new Map<string, Receipt<WorkState>>();

async function admit(id: string): Promise<string> {
  const { outcome, receipt } = await store.admit(id, Buffer.from("do it"), running);
  receipts.set(id, receipt);
  return outcome;
}

async function end(id: string): Promise<string> {
  const receipt = receipts.get(id);
  if (receipt === undefined) return "not_admitted";
  return (await store.advance(receipt, done)).state.phase;
}

process.on("message", async (message) => {
  const told = command.parse(message);
  if ("hold" in told) {
    writesLeft = told.hold;
    return;
  }
  const id = "admit" in told ? told.admit : told.end;
  const outcome = await ("admit" in told ? admit(id) : end(id)).catch((failure: unknown) => {
    if (failure instanceof LemonError) return failure.code;
    throw failure;
  });
  process.send?.({ id, outcome, witnessed: store.lastWitnessedSequence });
});
// Whoever started it is gone.
process.on("disconnect", () => process.exit());
process.send?.("ready");
