/** The names that this box announces over mDNS. */
import type { RouteResult } from "../../protocol/host-agent/routes.ts";

export type Published = RouteResult<"discoveryPublish">;
export type DiscoveryState = RouteResult<"discoveryState">;

export interface Discovery {
  /** Announcing again is as good. Errors: `bad-request`, `hostname-conflict`, `avahi-down`, `timeout`. */
  publish(slug: string): Promise<Published>;
  /** Idempotent. Errors: `avahi-down`, `timeout`. */
  unpublish(slug: string): Promise<void>;
  state(): Promise<DiscoveryState>;
}
