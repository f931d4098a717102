/**
 * The network of a fake host: one cable, and WiFi networks that answer as their names say. Secured ones take any
 * password of 8 to 63 bytes but `wrong-password`.
 */

import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import type { CancelTimer, Clock } from "../clock.ts";
import type {
  Ipv4Settings,
  Network,
  NetworkEvent,
  NetworkState,
  WifiConnection,
  WifiCredentials,
  WifiNetworks,
} from "../machine/network.ts";
import { DHCP, type FakeConnection, type FakeMemory } from "./state.ts";

const IN_REACH = [
  { ssid: "Malmo Home", signal: -52, secured: true, freq_mhz: 5180 },
  { ssid: "Open Cafe", signal: -67, secured: false, freq_mhz: 2437 },
  { ssid: "Timeout Cafe", signal: -81, secured: false, freq_mhz: 2412 },
] as const;
const WRONG_PASSWORD = "wrong-password";
/** How often the signal of what is followed changes. */
const SIGNAL_EVERY_MS = 5_000;

export class FakeNetwork implements Network {
  readonly #memory: FakeMemory;
  readonly #clock: Clock;
  readonly #watchers = new Set<(event: NetworkEvent) => void>();
  #cancelSignal: CancelTimer = () => {};
  #weaker = false;

  constructor(memory: FakeMemory, clock: Clock) {
    this.#memory = memory;
    this.#clock = clock;
  }

  async state(): Promise<NetworkState> {
    const { primary, connections } = this.#memory.state.network;
    const known = Object.entries(connections);
    const saved = new Map(
      known.flatMap(([id, { kind, ssid, connected }]) =>
        kind === "wifi" ? [[ssid, { id, connected }] as const] : [],
      ),
    );
    const inReach = new Set<string>(IN_REACH.map(({ ssid }) => ssid));
    const hidden = [...saved.keys()].filter((ssid) => !inReach.has(ssid));
    return {
      primary,
      ethernet: known
        .filter(([, { kind }]) => kind === "ethernet")
        .map(([connection_id, { connected }]) => ({
          connection_id,
          iface: "eth0",
          connected,
          speed_mbps: 1000,
        })),
      wifi: [
        ...IN_REACH.map(({ ssid, signal, secured }) => ({ ssid, signal, secured })),
        ...hidden.map((ssid) => ({ ssid, signal: -70, secured: true })),
      ].map((network) => {
        const own = saved.get(network.ssid);
        const signal = network.signal - (this.#weaker ? 1 : 0);
        return {
          ...network,
          signal,
          connection_id: own?.id ?? "",
          connected: own?.connected ?? false,
          saved: own !== undefined,
        };
      }),
      ipv4: Object.fromEntries(known.map(([id, { ipv4 }]) => [id, ipv4])),
      ipv6: {},
    };
  }

  async scan(): Promise<WifiNetworks> {
    return { networks: [...IN_REACH] };
  }

  async connect({ ssid, password, hidden }: WifiCredentials): Promise<WifiConnection> {
    const network = IN_REACH.find((one) => one.ssid === ssid);
    if (network === undefined && !hidden) throw new HostAgentError("no-signal");
    if (ssid === "Timeout Cafe") throw new HostAgentError("timeout");
    if ((network?.secured ?? true) && !isAccepted(password)) {
      throw new HostAgentError("auth-failed");
    }
    const connection_id = await this.#memory.change(({ network: { connections } }) => {
      const known = Object.entries(connections).find(([, one]) => one.ssid === ssid);
      for (const one of Object.values(connections)) {
        if (one.kind === "wifi") one.connected = false;
      }
      const id = known?.[0] ?? freeId(connections);
      connections[id] = {
        kind: "wifi",
        ssid,
        connected: true,
        ipv4: known?.[1].ipv4 ?? { ...DHCP, address: "192.168.1.21/24" },
      };
      return id;
    });
    this.#tell({ type: "connected", ts: this.#now(), connection_id });
    return { connection_id, state: "activated" };
  }

  async forget(connectionId: string): Promise<void> {
    const { primary, connections } = this.#memory.state.network;
    if (!Object.hasOwn(connections, connectionId)) return;
    if (connections[connectionId]?.kind !== "wifi") {
      throw new HostAgentError("bad-request", {
        message: "only a WiFi connection can be forgotten",
      });
    }
    const { connected } = connections[connectionId];
    await this.#memory.change(({ network }) => {
      delete network.connections[connectionId];
      if (primary === connectionId) network.primary = "ethernet-1";
    });
    const ts = this.#now();
    if (connected) this.#tell({ type: "dropped", ts, connection_id: connectionId });
    if (primary === connectionId) this.#tell({ type: "primary", ts, connection_id: "ethernet-1" });
  }

  async setPrimary(connectionId: string): Promise<void> {
    this.#known(connectionId);
    await this.#memory.change(({ network }) => {
      network.primary = connectionId;
    });
    this.#tell({ type: "primary", ts: this.#now(), connection_id: connectionId });
  }

  async configureIp(connectionId: string, settings: Ipv4Settings): Promise<void> {
    this.#known(connectionId);
    await this.#memory.change(({ network }) => {
      const connection = network.connections[connectionId];
      if (connection !== undefined) {
        connection.ipv4 = settings.mode === "dhcp" ? DHCP : { ...settings, dns: [...settings.dns] };
      }
    });
  }

  watch(onEvent: (event: NetworkEvent) => void): () => void {
    // One function may be given twice.
    const watcher = (event: NetworkEvent): void => onEvent(event);
    this.#watchers.add(watcher);
    if (this.#watchers.size === 1) this.#followSignal();
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size === 0) this.#cancelSignal();
    };
  }

  #followSignal(): void {
    this.#cancelSignal = this.#clock.after(SIGNAL_EVERY_MS, () => {
      this.#weaker = !this.#weaker;
      const [{ ssid, signal }] = IN_REACH;
      this.#tell({
        type: "signal",
        ts: this.#now(),
        ssid,
        signal: signal - (this.#weaker ? 1 : 0),
      });
      this.#followSignal();
    });
  }

  #tell(event: NetworkEvent): void {
    for (const watcher of [...this.#watchers]) watcher(event);
  }

  #known(connectionId: string): void {
    if (!Object.hasOwn(this.#memory.state.network.connections, connectionId)) {
      throw new HostAgentError("unknown-connection");
    }
  }

  #now(): string {
    return new Date(this.#clock.nowMs()).toISOString();
  }
}

function isAccepted(password: Uint8Array): boolean {
  if (password.byteLength < 8 || password.byteLength > 63) return false;
  return !Buffer.from(WRONG_PASSWORD).equals(password);
}

function freeId(connections: Readonly<Record<string, FakeConnection>>): string {
  let number = 1;
  while (Object.hasOwn(connections, `wifi-${number}`)) number += 1;
  return `wifi-${number}`;
}
