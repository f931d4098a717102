/** Owns a host in memory for the reconciler's tests: its state, what was asked of it, and how it fails. */
import type { CallName, RouteArguments } from "../../client/host-agent/index.ts";
import type { ReconciledHost, StateSummary } from "../../client/reconciler/index.ts";
import type { JobView } from "../../protocol/host-agent/job.ts";
import type { RouteName, RouteResult } from "../../protocol/host-agent/routes.ts";

/** What becomes of the next change: its answer is lost before or after it took effect, or it is refused. */
type Mishap = "lost_before" | "lost_after" | "refused" | "ignored";

interface Asked {
  readonly route: RouteName;
  readonly input: unknown;
}

class Answered extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: string, status: number) {
    super(code);
    this.code = code;
    this.status = status;
  }
}

type Changeable = {
  -readonly [K in keyof StateSummary]: StateSummary[K];
};

export class HostInMemory implements ReconciledHost {
  readonly state: Changeable = {
    taken_at: "2026-12-01T00:00:00Z",
    services: {
      samba: { enabled: false, running: false },
      ssh: { enabled: true, running: true },
    },
    discovery: {},
    network: {
      primary: "eth-1",
      connections: {
        "eth-1": {
          kind: "ethernet",
          ipv4: { mode: "dhcp", address: "192.0.2.9/24", gateway: "192.0.2.1", dns: [] },
        },
      },
    },
    identity: {
      malmo_app_uid: 2000,
      malmo_app_gid: 2000,
      malmo_shared_gid: 2001,
      app_services: {},
    },
    users: { alex: { role: "member" } },
    time: { zone: "Etc/UTC" },
    host: { hostname: "box" },
  };
  readonly jobs = new Map<string, JobView>();
  /** All but the reads. */
  readonly changes: Asked[] = [];
  readonly keys: (string | undefined)[] = [];
  reachable = true;
  mishap: Mishap | null = null;

  async call<R extends CallName>(route: R, ...[input]: RouteArguments<R>): Promise<RouteResult<R>> {
    return (await this.answer(route, input ?? {})) as RouteResult<R>;
  }

  /** The same without its types, for a host that is asked across a process. */
  async answer(
    route: RouteName,
    input: { params?: unknown; body?: unknown; idempotencyKey?: string | undefined },
  ): Promise<unknown> {
    if (!this.reachable) throw Object.assign(new Error("connect"), { code: "ECONNREFUSED" });
    const { id = "", name = "" } = Object(input.params) as { id?: string; name?: string };
    if (route === "stateSummary") return structuredClone(this.state);
    if (route === "jobGet") {
      const job = this.jobs.get(id);
      if (job === undefined) throw new Answered("unknown-job", 404);
      return job;
    }
    const { mishap } = this;
    this.mishap = null;
    this.changes.push({ route, input });
    this.keys.push(input.idempotencyKey);
    if (mishap === "lost_before") throw new Error("the connection was reset");
    if (mishap === "refused") throw new Answered("bad-request", 400);
    const result = mishap === "ignored" ? {} : this.#change(route, name, Object(input.body));
    if (mishap === "lost_after") throw new Error("the connection was reset");
    return result;
  }

  #change(route: RouteName, service: string, body: Record<string, unknown>): unknown {
    const { state } = this;
    switch (route) {
      case "serviceEnable":
      case "serviceDisable": {
        const enabled = route === "serviceEnable";
        state.services[service] = { enabled, running: enabled };
        return state.services[service];
      }
      case "discoveryPublish": {
        const published = { name: `${body["slug"]}.local`, state: "established" };
        state.discovery[String(body["slug"])] = published;
        return published;
      }
      case "discoveryUnpublish":
        delete state.discovery[String(body["slug"])];
        return {};
      case "setPrimary":
        state.network = { ...state.network, primary: String(body["connection_id"]) };
        return {};
      case "configureIp": {
        const known = state.network.connections[String(body["connection_id"])];
        if (known === undefined) throw new Answered("unknown-connection", 404);
        known.ipv4 = { address: "", gateway: "", dns: [], ...Object(body["ipv4"]) };
        return {};
      }
      case "setRole":
        state.users[String(body["user"])] = { role: body["role"] === "admin" ? "admin" : "member" };
        return {};
      case "setTimezone":
        state.time = { zone: String(body["zone"]) };
        return {};
      case "setHostname":
        state.host = { hostname: String(body["hostname"]) };
        return {};
      case "systemUpdate":
      case "enrollDrive":
      case "ejectDrive":
      case "reboot":
      case "shutdown": {
        const job_id = `j_${(0x100000 + this.jobs.size).toString(16)}`;
        const job: JobView = { job_id, kind: route, status: "running" };
        this.jobs.set(job_id, job);
        return job;
      }
      default:
        throw new Answered("not-found", 404);
    }
  }
}
