/** NetworkManager's view of the box, and what it may be asked to change. */
import type { RouteBody, RouteResult } from "../../protocol/host-agent/routes.ts";

export type NetworkState = RouteResult<"networkState">;
export type NetworkEvent = Exclude<RouteResult<"networkEvents">, { lost: true }>;
export type WifiNetworks = RouteResult<"wifiScan">;
export type WifiConnection = RouteResult<"wifiConnect">;
export type Ipv4Settings = RouteBody<"configureIp">["ipv4"];

export interface WifiCredentials {
  readonly ssid: string;
  /** Empty for an open network. The bytes stay the caller's. */
  readonly password: Uint8Array;
  readonly hidden: boolean;
}

export interface Network {
  state(): Promise<NetworkState>;
  scan(): Promise<WifiNetworks>;
  /** Errors: `auth-failed`, `no-signal`, `timeout`. */
  connect(wifi: WifiCredentials): Promise<WifiConnection>;
  /** Idempotent. */
  forget(connectionId: string): Promise<void>;
  /** Errors: `unknown-connection`. */
  setPrimary(connectionId: string): Promise<void>;
  /** Errors: `unknown-connection`. */
  configureIp(connectionId: string, ipv4: Ipv4Settings): Promise<void>;
  /** Calls `onEvent` for each change until the returned function is called. */
  watch(onEvent: (event: NetworkEvent) => void): () => void;
}
