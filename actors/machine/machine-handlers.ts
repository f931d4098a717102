/**
 * Owns what each route does with the host and the jobs: nothing but the way from the wire's words to theirs.
 * Passwords are bytes from here on, and are zeroed when the host has answered.
 */
import type { Clock } from "../../host/clock.ts";
import type { Host } from "../../host/machine/host.ts";
import { isServiceName, SERVICE_NAMES, type ServiceName } from "../../host/machine/services.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import type { Jobs } from "../job/messages.ts";
import type { RouteHandlers } from "./handlers.ts";

export interface MachineOptions {
  readonly host: Host;
  readonly jobs: Jobs;
  readonly clock: Clock;
  /** Of this agent, as everywhere. */
  readonly version: string;
  /** The description of the socket, as it is served. */
  readonly openApi: () => Promise<Record<string, unknown>>;
}

export function machineHandlers(options: MachineOptions): RouteHandlers {
  const { host, jobs, clock, version, openApi } = options;
  const { accounts, discovery, files, network, services } = host;
  const now = (): string => new Date(clock.nowMs()).toISOString();
  const checkedNow = (): string => `${now().slice(0, 19)}Z`;

  return {
    // --- the box -------------------------------------------------------------------------------------
    systemStatus: async () => ({ ...(await host.facts.status()), agent_version: version }),
    systemResources: () => host.facts.resources(),
    systemGpu: () => host.facts.gpu(),
    healthSystem: async () => ({
      checked_at: checkedNow(),
      categories: await host.health.findings(),
    }),
    setHostname: async ({ body }) => done(host.hostname.set(body.hostname)),
    setTimezone: async ({ body }) => done(host.timeZone.set(body.zone)),
    reboot: ({ body, idempotencyKey }) => jobs.start("reboot", body, idempotencyKey),
    shutdown: ({ body, idempotencyKey }) => jobs.start("shutdown", body, idempotencyKey),
    stateSummary: async () => ({ taken_at: now(), ...(await summary(host)) }),
    openApi,

    // --- services --------------------------------------------------------------------------------------
    serviceGet: async ({ params }) => await services.state(serviceOf(params.name)),
    serviceEnable: async ({ params }) => await services.enable(serviceOf(params.name)),
    serviceDisable: async ({ params }) => await services.disable(serviceOf(params.name)),
    serviceRestart: async ({ params }) => await services.restart(serviceOf(params.name)),

    // --- people and apps ---------------------------------------------------------------------------------
    verifyPassword: async ({ body: { user, password } }) => ({
      // Whatever goes wrong, nobody learns why: the answer is the same.
      valid: await lent(password, (bytes) => accounts.verifyPassword(user, bytes)).catch(
        () => false,
      ),
    }),
    setPassword: ({ body: { user, password } }) =>
      done(lent(password, (bytes) => accounts.setPassword(user, bytes))),
    setRole: ({ body: { user, role } }) => done(accounts.setRole(user, role)),
    deleteUser: ({ body }) => done(accounts.deleteUser(body.user)),
    userHome: ({ params }) => accounts.home(params.username),
    wellKnownIdentity: () => accounts.wellKnown(),
    allocateAppService: ({ body }) => accounts.allocateAppService(body.instance_id),
    releaseAppService: ({ body }) => done(accounts.releaseAppService(body.uid)),

    // --- names and network ---------------------------------------------------------------------------------
    discoveryPublish: ({ body }) => discovery.publish(body.slug),
    discoveryUnpublish: ({ body }) => done(discovery.unpublish(body.slug)),
    discoveryState: () => discovery.state(),
    networkState: () => network.state(),
    networkEvents: async () => ({ kind: "watch", watch: (onEvent) => network.watch(onEvent) }),
    wifiScan: () => network.scan(),
    wifiConnect: ({ body: { ssid, password, hidden } }) =>
      lent(password, (bytes) => network.connect({ ssid, password: bytes, hidden })),
    wifiForget: ({ body }) => done(network.forget(body.connection_id)),
    setPrimary: ({ body }) => done(network.setPrimary(body.connection_id)),
    configureIp: ({ body }) => done(network.configureIp(body.connection_id, body.ipv4)),

    // --- files -----------------------------------------------------------------------------------------------
    filesList: async ({ body: { user, ...place } }) => ({
      entries: [...(await files.list(user, place))],
    }),
    filesStat: ({ body: { user, ...place } }) => files.stat(user, place),
    filesMkdir: ({ body: { user, ...place } }) => done(files.mkdir(user, place)),
    filesMove: ({ body: { user, from, to } }) => done(files.move(user, from, to)),
    filesCopy: ({ body: { user, from, to } }) => done(files.copy(user, from, to)),
    filesDelete: ({ body: { user, ...place } }) => done(files.delete(user, place)),
    filesDownload: ({ query: { user, ...place } }) => files.download(user, place),
    filesUpload: ({ query: { user, ...place } }, bytes) => done(files.upload(user, place, bytes)),

    // --- jobs and logs -----------------------------------------------------------------------------------------
    systemUpdate: ({ body, idempotencyKey }) => jobs.start("system-update", body, idempotencyKey),
    enrollDrive: ({ body, idempotencyKey }) => jobs.start("enroll-drive", body, idempotencyKey),
    ejectDrive: ({ body, idempotencyKey }) => jobs.start("eject-drive", body, idempotencyKey),
    jobList: async () => ({ jobs: [...(await jobs.list())] }),
    jobGet: ({ params }) => jobs.get(params.id),
    jobCancel: async ({ params }) => {
      const { job_id, status } = await jobs.cancel(params.id);
      return { job_id, status };
    },
    jobLog: async ({ params, lastEventId }) => ({
      kind: "frames",
      reader: await jobs.log(params.id, lastEventId),
    }),
    journalFollow: async ({ query, lastEventId }) => {
      const over = new AbortController();
      const how = { resumed: lastEventId !== null, signal: over.signal };
      const lines = await host.journal.follow(query.container, how);
      return { kind: "follow", lines, end: () => over.abort() };
    },
  };
}

async function done(work: Promise<void>): Promise<Record<string, never>> {
  await work;
  return {};
}

async function lent<T>(password: string, use: (bytes: Uint8Array) => Promise<T>): Promise<T> {
  const bytes = Buffer.from(password, "utf8");
  try {
    return await use(bytes);
  } finally {
    bytes.fill(0);
  }
}

function serviceOf(name: string): ServiceName {
  if (isServiceName(name)) return name;
  throw new HostAgentError("unknown-service");
}

/** One member a domain, comparable field by field (rulings, "Host-agent"). */
async function summary({ services, discovery, network, accounts, timeZone, hostname }: Host) {
  const [states, names, links, wellKnown, apps, roles, zone, name] = await Promise.all([
    Promise.all(SERVICE_NAMES.map(async (one) => [one, await services.state(one)] as const)),
    discovery.state(),
    network.state(),
    accounts.wellKnown(),
    accounts.appServices(),
    accounts.roles(),
    timeZone.get(),
    hostname.get(),
  ]);
  const ethernet = new Set(links.ethernet.map(({ connection_id }) => connection_id));
  return {
    services: Object.fromEntries(states),
    discovery: Object.fromEntries(
      names.published.map(({ slug, name: published, state }) => [slug, { name: published, state }]),
    ),
    network: {
      primary: links.primary,
      connections: Object.fromEntries(
        Object.entries(links.ipv4).map(([id, ipv4]) => [
          id,
          { kind: ethernet.has(id) ? ("ethernet" as const) : ("wifi" as const), ipv4 },
        ]),
      ),
    },
    identity: { ...wellKnown, app_services: Object.fromEntries(apps) },
    users: Object.fromEntries([...roles].map(([user, role]) => [user, { role }])),
    time: { zone },
    host: { hostname: name },
  };
}
