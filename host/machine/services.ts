/** The optional services of the box, by the names the brain knows. */
import type { RouteResult } from "../../protocol/host-agent/routes.ts";

export const SERVICE_NAMES = ["tailscale", "samba", "dlna", "ssh"] as const;
export type ServiceName = (typeof SERVICE_NAMES)[number];
export type ServiceState = RouteResult<"serviceGet">;

export function isServiceName(name: string): name is ServiceName {
  return (SERVICE_NAMES as readonly string[]).includes(name);
}

export interface Services {
  state(name: ServiceName): Promise<ServiceState>;
  /** Also starts it. */
  enable(name: ServiceName): Promise<ServiceState>;
  /** Also stops it. */
  disable(name: ServiceName): Promise<ServiceState>;
  restart(name: ServiceName): Promise<ServiceState>;
}
