/**
 * Composes `lemon host-agent`: a UNIX socket in front of a host, with a nats-server of its own for job records.
 *
 *   /lemon            one_for_one
 *     nats-server     the records
 *     jobs            whatever runs
 *     gateway         the streams
 *
 * It ends in order: nothing new is taken, what runs has its time, then the streams end, the last requests, and the
 * rest.
 */
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { hostJobKinds } from "../../actors/job/host-kinds.ts";
import type { Jobs } from "../../actors/job/messages.ts";
import { JobOpening } from "../../actors/job/opening.ts";
import { startJobService } from "../../actors/job/service.ts";
import { jobReceipts } from "../../actors/job/state.ts";
import { machineHandlers } from "../../actors/machine/machine-handlers.ts";
import { createUnixHttp, type UnixHttp } from "../../gateways/unix-http/server.ts";
import { openSocketPlace } from "../../gateways/unix-http/socket.ts";
import { startStreams } from "../../gateways/unix-http/sse.ts";
import { type Account, findAccount } from "../../host/account-database.ts";
import { environmentForRuns } from "../../host/environment.ts";
import { openFakeHost } from "../../host/fake/host.ts";
import type { Host } from "../../host/machine/host.ts";
import { releaseFreedMemory } from "../../host/native/allocator.ts";
import { peerCredentials } from "../../host/peer-credentials.ts";
import { type ServiceManager, takeServiceManager } from "../../host/service-manager.ts";
import { SystemSpawner } from "../../host/spawner.ts";
import { LemonError } from "../../protocol/errors.ts";
import { LEMON_VERSION } from "../../protocol/version.ts";
import type { ActorSystem, SupervisorRef } from "../../supervision/actor.ts";
import { createActorSystem } from "../../supervision/system.ts";
import { openReceiptStore } from "../../transport/receipts/open.ts";
import { EXIT } from "../exit.ts";
import type { HostAgentOptions } from "../host-agent-options.ts";
import { printable } from "../printable.ts";
import { runtimeMode } from "./build.ts";
import type { RoleContext } from "./context.ts";
import { DRAIN_MS, untilAsked } from "./foreground.ts";
import { claimIdentity, openHome } from "./home.ts";
import { socketGroup } from "./host-agent-group.ts";
import { type HostAgentStore, openHostAgentStore } from "./host-agent-store.ts";
import { type Role, runRole } from "./role.ts";

const GATEWAY = {
  id: "gateway",
  strategy: "one_for_one",
  restart: "permanent",
  intensity: { restarts: 5, windowMs: 60_000 },
  backoff: { firstMs: 100, maxMs: 5_000, resetAfterMs: 60_000 },
} as const;
/** A server that restarts checks its whole store first. */
const RESTART = { deadlineMs: 60_000 } as const;

/** Runs until it is asked to end; answers the exit code. */
export function runHostAgent(given: HostAgentOptions): Promise<number> {
  const manager = takeServiceManager(process.env);
  return runRole(given, (role) => serve(role, manager));
}

async function serve(
  { options, context, announcement, foreground }: Role<HostAgentOptions>,
  manager: ServiceManager,
): Promise<number> {
  const { clock, log, say } = context;
  await using stack = new AsyncDisposableStack();
  const gid = socketGroup(
    {
      group: options.group,
      required: options.fake === null || options.groupIsChosen,
      strict: options.strictGroup,
    },
    say,
  );
  await openHome(options.home);
  const folder = join(options.home, "host-agent");
  const lock = await claimIdentity(folder, "the host-agent");
  stack.defer(() => lock.release());
  const host = await openHost(options, folder, context);

  const system = createActorSystem({ name: "lemon", log, clock });
  stack.defer(() => system.shutdown());
  const account = serverAccount(options, say);
  const store = stack.use(await openHostAgentStore({ folder, account }, system, context));
  // Again, so that the actors end before the connections they may need close.
  stack.defer(() => system.shutdown());
  const jobs = await openJobs(store, system, host, context, stack);

  const gateway = await system.root.startSupervisor(GATEWAY);
  const http = await createUnixHttp({
    handlers: machineHandlers({ host, jobs, clock, version: LEMON_VERSION, openApi }),
    streams: await startStreams(gateway, { clock }),
    clock,
    log,
    onConnection: (socket) => {
      // Who may connect is the socket's business; who did is for whoever asks afterwards.
      if (log.isLevelEnabled("debug")) log.debug({ peer: peerCredentials(socket) }, "connected");
    },
  });
  stack.defer(() => http.close(0));
  const withdraw = await listen(options, gid, http, manager, stack);

  manager.ready(`lemon ${LEMON_VERSION} serves the host-agent's socket`);
  announcement.hostAgentReady({ socket: options.socket, fake: options.fake !== null });
  stack.defer(manager.beat(clock));
  releaseFreedMemory();
  try {
    await Promise.race([untilAsked(foreground, system.ended), jobs.failed]);
  } finally {
    manager.stopping();
  }
  withdraw();
  await drain({ http, jobs, gateway }, foreground.hurry);
  return EXIT.ok;
}

/** Whom nats-server runs as; null: as we do, which is told when we are root and serve a real host. */
function serverAccount(
  { storeAccount, storeAccountIsChosen, fake }: HostAgentOptions,
  say: (line: string) => void,
): Account | null {
  if (process.geteuid?.() !== 0) return null;
  const found = findAccount(storeAccount);
  if (found !== null) return found;
  const missing = `there is no account ${printable(storeAccount)} for nats-server`;
  if (storeAccountIsChosen) {
    throw new LemonError("invalid_request", {
      message: `${missing}; make it (useradd --system), or name another with --store-account`,
    });
  }
  if (fake === null) say(`WARNING: ${missing}: it runs as root`);
  return null;
}

async function openHost(
  { fake }: HostAgentOptions,
  folder: string,
  { clock }: RoleContext,
): Promise<Host> {
  if (fake === null) {
    throw new LemonError("not_implemented", {
      message: "This version serves a fake host alone; start it with --fake",
    });
  }
  const { stateFile, jobMs, gpu, storageReport } = fake;
  // What nothing else remembers begins anew each time, its files too.
  const filesFolder = stateFile === null ? join(folder, "fake-files") : `${stateFile}.files`;
  if (stateFile === null) await rm(filesFolder, { recursive: true, force: true });
  return await openFakeHost({
    clock,
    stateFile,
    filesFolder,
    gpu,
    storageReport,
    ...(jobMs === null ? {} : { jobMs }),
  });
}

async function openJobs(
  { store, storeSystem, server, receipts, generation }: HostAgentStore,
  system: ActorSystem,
  host: Host,
  { clock, log }: RoleContext,
  stack: AsyncDisposableStack,
): Promise<JobOpening> {
  let spawner: SystemSpawner | null = null;
  stack.defer(() => spawner?.close());
  const jobs = new JobOpening({
    openStore: () =>
      openReceiptStore({
        kind: jobReceipts,
        connection: store,
        sys: storeSystem,
        directory: receipts,
        generation,
        clock,
        log,
        restartServer: (serverId) => server.ask("restart", { serverId }, RESTART),
      }),
    startService: (records) =>
      startJobService(system.root, {
        kinds: hostJobKinds(host),
        receipts: records,
        spawner: () => {
          spawner ??= new SystemSpawner({ log, clock });
          return spawner;
        },
        environment: environmentForRuns(process.env),
        clock,
        log,
      }),
    clock,
    log,
  });
  stack.defer(() => jobs.close());
  await jobs.begin();
  return jobs;
}

/** Answers what takes the socket's name away. */
async function listen(
  { socket, fake }: HostAgentOptions,
  gid: number | null,
  http: UnixHttp,
  { listenFds }: ServiceManager,
  stack: AsyncDisposableStack,
): Promise<() => void> {
  const [fd] = listenFds;
  if (fd !== undefined) {
    // Its place, group and mode are the socket unit's.
    await http.listen({ fd });
    return () => {};
  }
  const place = { path: socket, gid, closedFolder: fake === null };
  return stack.use(await openSocketPlace(place, (target) => http.listen(target))).withdraw;
}

interface Serving {
  readonly http: UnixHttp;
  readonly jobs: Jobs;
  readonly gateway: SupervisorRef;
}

async function drain({ http, jobs, gateway }: Serving, hurry: AbortSignal): Promise<void> {
  const closed = http.close(DRAIN_MS, hurry);
  await jobs.drain(hurry);
  await gateway.stop();
  await closed;
}

const OPENAPI = new URL(
  `${runtimeMode === "source-dev" ? "../.." : "../../.."}/docs/reference/host-agent.openapi.json`,
  import.meta.url,
);

async function openApi(): Promise<Record<string, unknown>> {
  return JSON.parse(await readFile(OPENAPI, "utf8"));
}
