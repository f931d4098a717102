/**
 * Owns the words spoken with a nats-server's system account (docs.nats.io, "System Events & Decentralized
 * JWT Tutorial"). Every answer is read by its shape; a server that answers nothing, or something else,
 * is `unavailable`, which may always be asked again: each of these requests is idempotent.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import { LemonError } from "../../protocol/errors.ts";
import { claimsOf } from "../keys/claims.ts";
import { lifeline } from "../rpc/lifeline.ts";

const REQUEST_TIMEOUT_MS = 5_000;
/** How long a cluster's servers are waited for after the last one answered is the client's: 300 ms. */
const CLUSTER_MAX_WAIT_MS = 2_000;
const CONNECTIONS_A_PAGE = 1_024;

/** A connection that the hub holds now, or held when it told us. */
export interface SystemConnection {
  /** Unique among all servers and restarts. */
  readonly id: string;
  readonly account: string;
  /** The public user nkey it proved. */
  readonly userKey: string;
  /** A leaf's server name or a client's name: claimed, never proven. */
  readonly name: string;
}

export interface SystemApi {
  /** Hands the hub an account's claims, new or changed. */
  updateAccount(jwt: string): Promise<void>;
  /** Hands the hub a signed order to delete accounts. */
  deleteAccounts(jwt: string): Promise<void>;
  /** The claims (the `nats` part) that the hub holds for an account; null when it knows none. */
  accountClaims(key: string): Promise<unknown>;
  /** Every connection of every account, over all servers. */
  connections(): Promise<SystemConnection[]>;
}

export function systemApi(system: NatsConnection): SystemApi {
  const line = lifeline(system);
  const request = async (subject: string, payload: string): Promise<Uint8Array> =>
    (await line.request(subject, payload, REQUEST_TIMEOUT_MS)).data;

  const order = async (subject: string, jwt: string): Promise<void> => {
    const data = member(parse(await request(subject, jwt)), "data");
    if (member(data, "code") !== 200) throw new LemonError("unavailable");
  };

  const page = async (server: string, offset: number): Promise<Page> =>
    readPage(
      await request(
        `$SYS.REQ.SERVER.${server}.CONNZ`,
        JSON.stringify({ auth: true, limit: CONNECTIONS_A_PAGE, offset }),
      ),
    );

  return {
    updateAccount: (jwt) => order("$SYS.REQ.CLAIMS.UPDATE", jwt),
    deleteAccounts: (jwt) => order("$SYS.REQ.CLAIMS.DELETE", jwt),

    async accountClaims(key) {
      const jwt = text(await request(`$SYS.REQ.ACCOUNT.${key}.CLAIMS.LOOKUP`, ""));
      if (jwt === "") return null;
      return member(claimsOf(jwt), "nats") ?? null;
    },

    async connections() {
      const found: SystemConnection[] = [];
      for (const server of await servers(system)) {
        for (let offset = 0, total = 1; offset < total; offset += CONNECTIONS_A_PAGE) {
          const read = await page(server, offset);
          found.push(...read.connections);
          total = read.total;
        }
      }
      return found;
    },
  };
}

/** What a server says when a connection came or went. */
export interface Advisory {
  /** Null on a side that knows no user: a leaf's own end of its link. */
  readonly connection: SystemConnection | null;
  /** `Leafnode`, `Client`, … */
  readonly kind: string;
  /** Why it went, in the server's words. */
  readonly reason: string;
}

/** One advisory of `$SYS.ACCOUNT.*.CONNECT` or `.DISCONNECT`; null when it is none. */
export function readAdvisory(bytes: Uint8Array): Advisory | null {
  let advisory: unknown;
  try {
    advisory = parse(bytes);
  } catch {
    return null;
  }
  const client = member(advisory, "client");
  const connection = readConnection(
    member(member(advisory, "server"), "id"),
    member(client, "id"),
    member(client, "acc"),
    member(client, "user"),
    member(client, "name"),
  );
  const kind = string(member(client, "kind"));
  return { connection, kind, reason: string(member(advisory, "reason")) };
}

/** How many links a server says it has, in its answer to LEAFZ. */
export function leafCount(bytes: Uint8Array): number {
  const leafs = member(member(parse(bytes), "data"), "leafs");
  return Array.isArray(leafs) ? leafs.length : 0;
}

interface Page {
  readonly total: number;
  readonly connections: readonly SystemConnection[];
}

function readPage(bytes: Uint8Array): Page {
  const data = member(parse(bytes), "data");
  const total = member(data, "total");
  const rows = member(data, "connections");
  if (typeof total !== "number" || !Array.isArray(rows)) throw new LemonError("unavailable");
  const server = member(data, "server_id");
  const connections = rows.flatMap((row: unknown): SystemConnection[] => {
    const connection = readConnection(
      server,
      member(row, "cid"),
      member(row, "account"),
      member(row, "authorized_user"),
      member(row, "name"),
    );
    return connection === null ? [] : [connection];
  });
  return { total, connections };
}

function readConnection(
  server: unknown,
  id: unknown,
  account: unknown,
  userKey: unknown,
  name: unknown,
): SystemConnection | null {
  if (typeof server !== "string" || typeof id !== "number") return null;
  if (typeof account !== "string" || typeof userKey !== "string") return null;
  return { id: `${server}:${id}`, account, userKey, name: string(name) };
}

/** Ids of the servers behind this connection: one, or those of the cluster that answer. */
async function servers(system: NatsConnection): Promise<string[]> {
  const info = system.info;
  if (info === undefined) throw new LemonError("unavailable");
  if (info.cluster === undefined) return [info.server_id];
  const ids: string[] = [];
  try {
    const answers = await system.requestMany("$SYS.REQ.SERVER.PING.IDZ", "", {
      strategy: "stall",
      maxWait: CLUSTER_MAX_WAIT_MS,
    });
    for await (const answer of answers) {
      const id = member(member(parse(answer.data), "server"), "id");
      if (typeof id === "string") ids.push(id);
    }
  } catch (cause) {
    throw new LemonError("unavailable", { cause });
  }
  if (ids.length === 0) throw new LemonError("unavailable");
  return ids;
}

const utf8 = new TextDecoder();
const text = (bytes: Uint8Array): string => utf8.decode(bytes);

function parse(bytes: Uint8Array): unknown {
  try {
    const value: unknown = JSON.parse(text(bytes));
    return value;
  } catch (cause) {
    throw new LemonError("unavailable", { cause });
  }
}

function string(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function member(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}
