/**
 * Owns the text of nats-server's configuration: the hub's and a node's (leaf and store), exactly
 * the two that node-link's experiments passed with.
 *
 * 1. Every value is written quoted and escaped: no path or name can end its string or be taken for
 *    a variable, a number or an include.
 * 2. JetStream syncs before each acknowledgement (`sync_interval: always`), always.
 * 3. Every listener is on loopback, and there is no monitoring port.
 * Source: https://docs.nats.io/running-a-nats-service/configuration
 */

/** What `server.ts` chooses and lends to a configuration. */
export interface ServerPlaces {
  readonly ports: ServerPorts;
  readonly storeDirectory: string;
  readonly portsDirectory: string;
  readonly logFile: string;
}

/** TCP ports on 127.0.0.1. */
export interface ServerPorts {
  readonly client: number;
  readonly leaf: number;
  readonly websocket: number;
}

export interface HubConfig {
  readonly serverName: string;
  readonly operatorJwt: string;
  /** Public key of the system account. */
  readonly systemAccount: string;
  /** Folder of the full resolver; the SYS and controller accounts' JWTs lie in it before the first start. */
  readonly jwtDirectory: string;
  readonly maxStoreBytes?: number;
}

export interface NodeConfig {
  readonly serverName: string;
  /** JetStream domain: the node's account key, or any stable token for a store without a link. */
  readonly domain: string;
  /** Public nkey of the store's one user. */
  readonly storeUser: string;
  /** Public nkey of the one user that may read the server's own state. */
  readonly sysUser: string;
  /** Absent for a local store server: it then listens for its own process alone. */
  readonly link?: LinkConfig;
  readonly maxStoreBytes?: number;
}

export interface LinkConfig {
  /** Public key of the node's account on the hub: the `<id>` of `node.<id>.>` and `ctl.<id>.>`. */
  readonly account: string;
  /** Public nkey of this worker life on its own leaf. */
  readonly workerUser: string;
  /**
   * `ws://` or `wss://`, host, optional port and prefix (the leaf itself appends `/leafnode`), or `nats://`
   * or `tls://` and host; several are tried in any order, and none may mix the two sorts.
   */
  readonly url: string | readonly string[];
  readonly credentialsFile: string;
  /** PEM file of the authorities to trust beside the system's. */
  readonly caFile?: string;
}

/** A receipt is small; 1 MiB file chunks and process outputs with their envelope are not. */
export const MAX_PAYLOAD_BYTES = 8 * 1024 * 1024;
/** 64 × 1 MiB in flight exceed the default of 64 MB and would lose requests. */
const MAX_PENDING = "256MB";
const HUB_MEMORY_BYTES = 256 * 1024 * 1024;
const NODE_MEMORY_BYTES = 64 * 1024 * 1024;
const STORE_BYTES = 10 * 1024 * 1024 * 1024;
/** Two files at most: the one being written and one before it. */
const LOG_BYTES = 2 * 1024 * 1024;
/** What no leaf may carry in either direction: the JetStream, KV, object and system subjects of the other side. */
const DENIED = ["$JS.>", "$KV.>", "$O.>", "$SYS.>"];

/** The controller's server: operator mode, its own JetStream, leafs through its websocket port. */
export function hubConfig(hub: HubConfig, places: ServerPlaces): string {
  return lines([
    ...common(hub.serverName, places),
    `operator: ${quote(hub.operatorJwt)}`,
    `system_account: ${quote(hub.systemAccount)}`,
    `resolver: { type: full, dir: ${quote(hub.jwtDirectory)}, allow_delete: true, interval: "2m" }`,
    jetstream(places.storeDirectory, "hub", HUB_MEMORY_BYTES, hub.maxStoreBytes ?? STORE_BYTES),
    `leafnodes { listen: ${quote(`127.0.0.1:${places.ports.leaf}`)} }`,
    `websocket { listen: ${quote(`127.0.0.1:${places.ports.websocket}`)}, no_tls: true }`,
  ]);
}

/** A node's server: LINK (no JetStream) and STORE (no link) apart, and SYS for the durability proof. */
export function nodeConfig(node: NodeConfig, places: ServerPlaces): string {
  const { link } = node;
  return lines([
    ...common(node.serverName, places),
    "accounts {",
    ...(link === undefined ? [] : [`  LINK: { users: [ ${linkUser(link)} ] }`]),
    `  STORE: { jetstream: enabled, users: [ { nkey: ${quote(node.storeUser)} } ] }`,
    `  SYS: { users: [ { nkey: ${quote(node.sysUser)} } ] }`,
    "}",
    "system_account: SYS",
    jetstream(
      places.storeDirectory,
      node.domain,
      NODE_MEMORY_BYTES,
      node.maxStoreBytes ?? STORE_BYTES,
    ),
    ...(link === undefined
      ? []
      : [`leafnodes { reconnect: "500ms", remotes: [ ${remote(link)} ] }`]),
  ]);
}

/**
 * A double-quoted string of the configuration language. Throws a `RangeError` on NUL, which no
 * path, name or token can hold.
 */
export function quote(value: string): string {
  if (value.includes("\0")) throw new RangeError("a configuration value holds NUL");
  let quoted = "";
  for (const character of value) {
    const code = character.codePointAt(0) ?? 0;
    if (character === '"' || character === "\\") quoted += `\\${character}`;
    else if (code < 0x20 || code === 0x7f) quoted += `\\x${code.toString(16).padStart(2, "0")}`;
    else quoted += character;
  }
  return `"${quoted}"`;
}

function common(serverName: string, places: ServerPlaces): string[] {
  return [
    `server_name: ${quote(serverName)}`,
    `listen: ${quote(`127.0.0.1:${places.ports.client}`)}`,
    `ports_file_dir: ${quote(places.portsDirectory)}`,
    `log_file: ${quote(places.logFile)}`,
    `logfile_size_limit: ${LOG_BYTES}`,
    "logfile_max_num: 2",
    `max_payload: ${MAX_PAYLOAD_BYTES}`,
    `max_pending: ${MAX_PENDING}`,
    'ping_interval: "5s"',
    "ping_max: 2",
  ];
}

function jetstream(
  directory: string,
  domain: string,
  memoryBytes: number,
  storeBytes: number,
): string {
  return `jetstream { store_dir: ${quote(directory)}, domain: ${quote(domain)}, sync_interval: always, max_mem: ${memoryBytes}, max_file: ${storeBytes} }`;
}

function linkUser(link: LinkConfig): string {
  const publish = quote(`ctl.${link.account}.>`);
  const subscribe = quote(`node.${link.account}.>`);
  return `{ nkey: ${quote(link.workerUser)}, permissions: { publish: { allow: [${publish}] }, subscribe: { allow: [${subscribe}] } } }`;
}

function remote(link: LinkConfig): string {
  const denied = DENIED.map(quote).join(", ");
  const urls = [link.url].flat();
  const trust = link.caFile === undefined ? "" : `, tls: { ca_file: ${quote(link.caFile)} }`;
  return `{ urls: [${urls.map(quote).join(", ")}], account: LINK, credentials: ${quote(link.credentialsFile)}, compression: off, deny_imports: [${denied}], deny_exports: [${denied}]${trust} }`;
}

function lines(rows: readonly string[]): string {
  return `${rows.join("\n")}\n`;
}
