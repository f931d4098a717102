/** What the box is and how it does: name, time zone, power, disks, counters, GPU, health. */
import type { RouteResult } from "../../protocol/host-agent/routes.ts";

type Status = RouteResult<"systemStatus">;
/** What the host knows of its own status; the agent adds its version. */
export type HostStatus = Omit<Status, "agent_version">;
/** `ts_ns` as the kernel counts it: exact. */
export type ResourceSample = Omit<RouteResult<"systemResources">, "ts_ns"> & {
  readonly ts_ns: bigint;
};
export type Gpu = RouteResult<"systemGpu">;
export type HealthFindings = RouteResult<"healthSystem">["categories"];

export interface SystemFacts {
  status(): Promise<HostStatus>;
  /** Read on each call; no rates, no state. */
  resources(): Promise<ResourceSample>;
  gpu(): Promise<Gpu>;
}

export interface Health {
  /** A category that could not be measured is left out; never throws for a failing source. */
  findings(): Promise<HealthFindings>;
  /** A health issue that blocks writes to people's files; null when none does. */
  blocksWrites(): Promise<string | null>;
}

export interface Hostname {
  get(): Promise<string>;
  /** Errors: `bad-request` for one that is no host name (RFC 1123, one label). */
  set(hostname: string): Promise<void>;
}

export interface TimeZone {
  get(): Promise<string>;
  /** An unknown zone is a failure like any other. */
  set(zone: string): Promise<void>;
}

export interface Power {
  /** Resolves when the system has accepted the order; the end of this process follows. */
  reboot(): Promise<void>;
  shutdown(): Promise<void>;
}
