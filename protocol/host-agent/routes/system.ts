/** Declares what the box says of itself and lets be set: status, resources, GPU, health, names, time, power. */
import { z } from "zod";
import { job } from "../job.ts";
import { done, requiredText, route } from "../route.ts";

const bytes = z.int().nonnegative();
const counter = z.int().nonnegative();

export const systemStatus = route({
  name: "systemStatus",
  method: "GET",
  path: "/v1/system/status",
  summary: "The box at a glance: name, uptime, agent version, how full its disks are.",
  result: z.object({
    hostname: z.string(),
    uptime_s: z.int().nonnegative().describe("Of the host, in seconds."),
    disk_pressure: z.boolean(),
    agent_version: z.string().describe("CalVer, as everywhere in lemon."),
    data_disk_free_bytes: bytes.describe("0 of 0 is not measured."),
    data_disk_total_bytes: bytes,
    disks: z
      .array(z.object({ label: z.string(), free_bytes: bytes, total_bytes: bytes }))
      .describe("System always; Data only when it is a mount of its own."),
  }),
});

export const systemResources = route({
  name: "systemResources",
  method: "GET",
  path: "/v1/system/resources",
  summary: "Raw cumulative counters and a monotonic stamp; whoever polls computes the rates.",
  result: z.object({
    ts_ns: z
      .number()
      .nonnegative()
      .meta({ type: "integer", format: "int64" })
      .describe("Monotonic, in nanoseconds; written exactly, also above 2^53."),
    cpu: z.object({ total_jiffies: counter, idle_jiffies: counter }),
    loadavg: z.tuple([z.number(), z.number(), z.number()]),
    mem: z.object({ total_bytes: bytes, available_bytes: bytes, used_bytes: bytes }),
    net: z.array(z.object({ iface: z.string(), rx_bytes: bytes, tx_bytes: bytes })),
    disk: z.array(z.object({ dev: z.string(), read_bytes: bytes, write_bytes: bytes })),
    uptime_s: z.int().nonnegative(),
  }),
  failure: "sample-failed",
});

export const systemGpu = route({
  name: "systemGpu",
  method: "GET",
  path: "/v1/system/gpu",
  summary: "Whether there is a usable GPU, and which group may use it.",
  result: z.object({
    present: z.boolean(),
    vendor: z.enum(["intel", "amd", "nvidia", ""]),
    render_gid: z.int().nonnegative(),
  }),
});

/** The fixed names of the health categories. */
const HEALTH_CATEGORIES = ["storage", "drives", "services", "resources", "time", "system"] as const;

const finding = z.object({
  id: z.string(),
  instance_key: z.string().optional(),
  details: z.string().optional(),
});

export const healthSystem = route({
  name: "healthSystem",
  method: "GET",
  path: "/v1/health/system",
  summary: "Every health finding of the host; a category that is missing was not measured.",
  result: z.object({
    checked_at: z.iso.datetime(),
    categories: z.partialRecord(z.enum(HEALTH_CATEGORIES), z.array(finding)),
  }),
});

export const setHostname = route({
  name: "setHostname",
  method: "POST",
  path: "/v1/system/set-hostname",
  summary: "Gives the host another name.",
  body: z.object({ hostname: requiredText("hostname is required") }),
  result: done,
  errors: ["bad-request"],
  failure: "set-hostname-failed",
});

export const setTimezone = route({
  name: "setTimezone",
  method: "POST",
  path: "/v1/system/set-timezone",
  summary: "Sets the time zone by its IANA name.",
  body: z.object({ zone: requiredText("zone is required") }),
  result: done,
  errors: ["bad-request"],
  failure: "set-timezone-failed",
});

const power = {
  method: "POST",
  body: z.object({}),
  result: job,
  status: 202,
  idempotencyKey: true,
  errors: ["too-many-jobs", "idempotency-conflict"],
} as const;

export const reboot = route({
  name: "reboot",
  path: "/v1/system/reboot",
  summary: "Starts a job that restarts the box once every running job has ended.",
  ...power,
});

export const shutdown = route({
  name: "shutdown",
  path: "/v1/system/shutdown",
  summary: "Starts a job that turns the box off once every running job has ended.",
  ...power,
});

const serviceState = z.object({ enabled: z.boolean(), running: z.boolean() });

export const stateSummary = route({
  name: "stateSummary",
  method: "GET",
  path: "/v1/state/summary",
  summary: "The actual state of everything the brain manages, comparable field by field.",
  result: z.object({
    taken_at: z.iso.datetime(),
    services: z.record(z.string(), serviceState),
    discovery: z.record(z.string(), z.object({ name: z.string(), state: z.string() })),
    network: z.object({
      primary: z.string().describe('A connection id; "" is none.'),
      connections: z.record(
        z.string(),
        z.object({
          kind: z.enum(["ethernet", "wifi"]),
          ipv4: z.object({
            mode: z.enum(["dhcp", "static"]),
            address: z.string(),
            gateway: z.string(),
            dns: z.array(z.string()),
          }),
        }),
      ),
    }),
    identity: z.object({
      malmo_app_uid: z.int(),
      malmo_app_gid: z.int(),
      malmo_shared_gid: z.int(),
      app_services: z.record(z.string(), z.object({ uid: z.int(), gid: z.int() })),
    }),
    users: z.record(z.string(), z.object({ role: z.enum(["admin", "member"]) })),
    time: z.object({ zone: z.string() }),
    host: z.object({ hostname: z.string() }),
  }),
});

const name = z.object({ name: z.string() });

export const serviceGet = route({
  name: "serviceGet",
  method: "GET",
  path: "/v1/services/{name}",
  summary: "Whether a service is enabled and running: tailscale, samba, dlna or ssh.",
  params: name,
  result: serviceState,
  errors: ["unknown-service"],
  failure: "service-failed",
});

const change = {
  method: "POST",
  params: name,
  body: z.object({}),
  result: serviceState,
  errors: ["unknown-service"],
  failure: "service-failed",
} as const;

export const serviceEnable = route({
  name: "serviceEnable",
  path: "/v1/services/{name}/enable",
  summary: "Enables a service and starts it.",
  ...change,
});

export const serviceDisable = route({
  name: "serviceDisable",
  path: "/v1/services/{name}/disable",
  summary: "Stops a service and disables it.",
  ...change,
});

export const serviceRestart = route({
  name: "serviceRestart",
  path: "/v1/services/{name}/restart",
  summary: "Restarts a service; whether it is enabled stays as it is.",
  ...change,
});
