/**
 * Owns an agent's job engine that a test may kill: a process of its own with a real receipt store and a real
 * spawner. Its kind `hold` runs a program that tells its pid in the log and stays; `quick` ends at once. Forked
 * with `serialization: "advanced"`; answers `{n, value}` or `{n, code}` to `{n, call}`, and says `{ready: true}`
 * first.
 */
import { connect, nkeyAuthenticator } from "@nats-io/transport-node";
import pino from "pino";
import { z } from "zod";
import type { JobKind } from "../../actors/job/kind.ts";
import { jobKind } from "../../actors/job/registry.ts";
import { startJobService } from "../../actors/job/service.ts";
import { jobReceipts } from "../../actors/job/state.ts";
import { systemClock } from "../../host/clock.ts";
import { SystemSpawner } from "../../host/spawner.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import { createActorSystem } from "../../supervision/system.ts";
import { openReceiptStore } from "../../transport/receipts/open.ts";
import { PATH } from "./native-run.ts";

export interface JobAgentSpec {
  readonly url: string;
  readonly storeSeed: string;
  readonly sysSeed: string;
  readonly directory: string;
  readonly logFile: string;
  readonly generation: number;
}

export type JobAgentCall =
  | {
      readonly do: "start";
      readonly kind: string;
      readonly body: object;
      readonly key: string | null;
    }
  | { readonly do: "get" | "cancel" | "firstLine"; readonly id: string }
  | { readonly do: "list" };

interface Told {
  readonly n: number;
  readonly call: JobAgentCall;
}

const spec = z
  .object({
    url: z.string(),
    storeSeed: z.string(),
    sysSeed: z.string(),
    directory: z.string(),
    logFile: z.string(),
    generation: z.int(),
  })
  .parse(JSON.parse(process.argv[2] ?? "")) satisfies JobAgentSpec;

const as = (seed: string) =>
  connect({
    servers: spec.url,
    authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)),
    maxReconnectAttempts: -1,
  });
const log = pino({ level: "trace" }, pino.destination({ dest: spec.logFile, sync: true }));
const clock = systemClock;
const receipts = await openReceiptStore({
  kind: jobReceipts,
  connection: await as(spec.storeSeed),
  sys: await as(spec.sysSeed),
  directory: spec.directory,
  generation: spec.generation,
  clock,
  log,
});

const hold: JobKind<Buffer> = {
  name: "hold",
  maxDurationMs: 600_000,
  dangerous: true,
  resourceClass: "disk",
  stallPolicy: "none",
  whenBusy: "queue",
  read: (body) => Buffer.from(z.object({ password: z.string() }).parse(body).password),
  credentials: (password) => [password],
  async run({ spawn }) {
    const { exitCode } = await spawn({ argv: ["sh", "-c", "echo $$; exec sleep 1000"] });
    return { exitCode };
  },
};
let spawner: SystemSpawner | null = null;
const jobs = await startJobService(createActorSystem({ name: "agent", log, clock }).root, {
  kinds: [
    jobKind(hold),
    jobKind<null>({
      ...hold,
      name: "quick",
      dangerous: false,
      read: () => null,
      credentials: () => [],
      run: async () => ({ quick: true }),
    }),
  ],
  receipts,
  spawner: () => {
    spawner ??= new SystemSpawner({ log });
    return spawner;
  },
  environment: { PATH },
  clock,
  log,
});

async function answer(call: JobAgentCall): Promise<unknown> {
  switch (call.do) {
    case "start":
      return await jobs.start(call.kind, call.body, call.key);
    case "list":
      return await jobs.list();
    case "get":
      return await jobs.get(call.id);
    case "cancel":
      return await jobs.cancel(call.id);
    case "firstLine": {
      const frames = await (await jobs.log(call.id, null)).next();
      return frames?.[0]?.data ?? null;
    }
  }
}

process.on("message", ({ n, call }: Told) => {
  answer(call).then(
    (value) => process.send?.({ n, value }),
    (failure: unknown) =>
      process.send?.({
        n,
        code: failure instanceof HostAgentError ? failure.code : String(failure),
      }),
  );
});
process.send?.({ ready: true });
