/**
 * Owns a node's worker that a test may kill: a process of its own with a real receipt store, a real
 * spawner and the process service. Forked with `serialization: "advanced"`; answers `{n, receipt}` or
 * `{n, code}` to `{n, method, request}`, and says `{ready: true}` first.
 */
import { fromSeed } from "@nats-io/nkeys";
import { connect, nkeyAuthenticator } from "@nats-io/transport-node";
import pino from "pino";
import { z } from "zod";
import { startProcessService } from "../../actors/process-run/service.ts";
import { processRuns } from "../../actors/process-run/state.ts";
import { pinRoots } from "../../host/allowed-roots.ts";
import { systemClock } from "../../host/clock.ts";
import { SystemSpawner } from "../../host/spawner.ts";
import { LemonError } from "../../protocol/errors.ts";
import { createActorSystem } from "../../supervision/system.ts";
import { openReceiptStore } from "../../transport/receipts/open.ts";
import { NODE_ID } from "./process-room.ts";

const spec = z
  .object({
    url: z.string(),
    storeSeed: z.string(),
    sysSeed: z.string(),
    directory: z.string(),
    folder: z.string(),
    stateFolder: z.string(),
    logFile: z.string(),
    generation: z.int(),
  })
  .parse(JSON.parse(process.argv[2] ?? ""));
const call = z.object({
  n: z.int(),
  method: z.enum(["run", "get", "cancel"]),
  request: z.unknown(),
});

const as = (seed: string) =>
  connect({
    servers: spec.url,
    authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)),
    maxReconnectAttempts: -1,
  });
// A seed that is none fails here, and not in a handshake.
fromSeed(new TextEncoder().encode(spec.storeSeed));
const log = pino({ level: "trace" }, pino.destination({ dest: spec.logFile, sync: true }));
const receipts = await openReceiptStore({
  kind: processRuns,
  connection: await as(spec.storeSeed),
  sys: await as(spec.sysSeed),
  directory: spec.directory,
  generation: spec.generation,
  clock: systemClock,
  log,
});
const system = createActorSystem({ name: "worker", log, clock: systemClock });
const service = await startProcessService(system.root, {
  nodeId: NODE_ID,
  generation: spec.generation,
  receipts,
  roots: pinRoots({
    roots: [spec.folder],
    defaultCwd: spec.folder,
    stateFolder: spec.stateFolder,
  }),
  spawner: new SystemSpawner({ log }),
  clock: systemClock,
  environment: { PATH: "/usr/local/bin:/usr/bin:/bin" },
  log,
});

process.on("message", (message) => {
  const { n, method, request } = call.parse(message);
  service[method](request).then(
    (receipt) => process.send?.({ n, receipt }),
    (failure: unknown) =>
      process.send?.({ n, code: failure instanceof LemonError ? failure.code : String(failure) }),
  );
});
process.send?.({ ready: true });
