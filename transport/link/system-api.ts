/**
 * Owns the words spoken with a nats-server's system account (docs.nats.io, "System Events & Decentralized
 * JWT Tutorial"). Every answer is read by its shape; a server that answers nothing, or something else,
 * is `unavailable`, which may always be asked again: each of these requests is idempotent.
 */
import { errors, type NatsConnection } from "@nats-io/transport-node";
import { LemonError } from "../../protocol/errors.ts";
import { ConnectionWatch } from "../connection-watch.ts";
import { claimsOf } from "../keys/claims.ts";

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

/** A server as it describes itself. */
export interface SystemServer {
  readonly name: string;
  readonly version: string;
  readonly maxPayloadBytes: number;
  /** How many servers keep JetStream's data between them, as far as this one knows; 1 outside a cluster. */
  readonly jetStreamPeers: number;
  /** Its wall clock when it answered, in Unix ms; null when it did not say. */
  readonly clockMs: number | null;
}

/** Why the hub takes no order to delete accounts: nobody there keeps accounts, it is switched off, or not for this key. */
export type OrderFault = "no_resolver" | "no_deletion" | "not_trusted";

export interface SystemApi {
  /** Every server that answers. Errors: `unavailable`, also for a connection that is not the system account's. */
  servers(): Promise<SystemServer[]>;
  /** What the hub would say to the signed order in `jwt`; one that names no account changes nothing. */
  orderFault(jwt: string): Promise<OrderFault | null>;
  /** Hands the hub an account's claims, new or changed. */
  updateAccount(jwt: string): Promise<void>;
  /** Hands the hub a signed order to delete accounts. */
  deleteAccounts(jwt: string): Promise<void>;
  /** The claims (the `nats` part) that the hub holds for an account; null when it knows none. */
  accountClaims(key: string): Promise<unknown>;
  /** Every connection of every account, or of one, over all servers. */
  connections(account?: string): Promise<SystemConnection[]>;
}

export function systemApi(system: NatsConnection): SystemApi {
  const watch = new ConnectionWatch(system);
  const request = async (subject: string, payload: string): Promise<Uint8Array> => {
    try {
      const options = { timeout: REQUEST_TIMEOUT_MS };
      return (await watch.over(() => system.request(subject, payload, options))).data;
    } catch (cause) {
      throw new LemonError("unavailable", { cause });
    }
  };

  /**
   * How many servers answered the last time that all of them were listed. One that joined since is told
   * of everything too, but nobody waits for it.
   */
  let known = Number.POSITIVE_INFINITY;

  /**
   * What every server answers: the one there is, or those of a cluster that do. At least one. How many
   * there are nobody says, so their end is a pause, unless `enough` have answered.
   */
  const askAll = async (
    subject: string,
    payload: string,
    enough = Number.POSITIVE_INFINITY,
  ): Promise<unknown[]> => {
    const { info } = system;
    if (info === undefined) throw new LemonError("unavailable");
    if (info.cluster === undefined) return [parse(await request(subject, payload))];
    const answers: unknown[] = [];
    try {
      const strategy = { strategy: "stall", maxWait: CLUSTER_MAX_WAIT_MS } as const;
      for await (const answer of await system.requestMany(subject, payload, strategy)) {
        answers.push(parse(answer.data));
        if (answers.length >= enough) return answers;
      }
    } catch (cause) {
      throw cause instanceof LemonError ? cause : new LemonError("unavailable", { cause });
    }
    if (answers.length === 0) throw new LemonError("unavailable");
    if (enough === Number.POSITIVE_INFINITY) known = answers.length;
    return answers;
  };

  /** Done when every server has done it: a node's leaf may be at any of them. */
  const order = async (subject: string, jwt: string): Promise<void> => {
    const answers = await askAll(subject, jwt, known);
    if (!answers.every((answer) => member(member(answer, "data"), "code") === 200)) {
      throw new LemonError("unavailable");
    }
  };

  const serverIds = async (): Promise<string[]> => {
    const { info } = system;
    if (info !== undefined && info.cluster === undefined) return [info.server_id];
    const answers = await askAll("$SYS.REQ.SERVER.PING.IDZ", "");
    return answers.flatMap((answer) => {
      // IDZ is the one answer without an envelope.
      const id = member(answer, "id");
      return typeof id === "string" ? [id] : [];
    });
  };

  const page = async (server: string, offset: number, acc?: string): Promise<Page> =>
    readPage(
      await request(
        `$SYS.REQ.SERVER.${server}.CONNZ`,
        JSON.stringify({ auth: true, limit: CONNECTIONS_A_PAGE, offset, acc }),
      ),
    );

  return {
    async servers() {
      const answers = await askAll("$SYS.REQ.SERVER.PING.VARZ", "");
      return answers.map(readServer);
    },

    async orderFault(jwt) {
      let answers: unknown[];
      try {
        answers = await askAll("$SYS.REQ.CLAIMS.DELETE", jwt, known);
      } catch (failure) {
        if (isNobodyThere(failure)) return "no_resolver";
        throw failure;
      }
      const faults = answers.map((answer) =>
        string(member(member(answer, "error"), "description")),
      );
      const fault = faults.find((description) => description !== "");
      if (fault === undefined) return null;
      return fault.includes("delete must be enabled") ? "no_deletion" : "not_trusted";
    },

    updateAccount: (jwt) => order("$SYS.REQ.CLAIMS.UPDATE", jwt),
    deleteAccounts: (jwt) => order("$SYS.REQ.CLAIMS.DELETE", jwt),

    async accountClaims(key) {
      const jwt = text(await request(`$SYS.REQ.ACCOUNT.${key}.CLAIMS.LOOKUP`, ""));
      if (jwt === "") return null;
      return member(claimsOf(jwt), "nats") ?? null;
    },

    async connections(account) {
      const found: SystemConnection[] = [];
      for (const server of await serverIds()) {
        for (let offset = 0, total = 1; offset < total; offset += CONNECTIONS_A_PAGE) {
          const read = await page(server, offset, account);
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

function readServer(answer: unknown): SystemServer {
  const server = member(answer, "server");
  const data = member(answer, "data");
  const maxPayloadBytes = member(data, "max_payload");
  if (typeof maxPayloadBytes !== "number") throw new LemonError("unavailable");
  const peers = member(member(member(data, "jetstream"), "meta"), "cluster_size");
  return {
    name: string(member(server, "name")),
    version: string(member(server, "ver")),
    maxPayloadBytes,
    jetStreamPeers: typeof peers === "number" ? peers : 1,
    clockMs: readTime(member(data, "now")),
  };
}

/** A time of RFC 3339, in Unix ms; null for anything else. */
function readTime(value: unknown): number | null {
  const timeMs = typeof value === "string" ? Date.parse(value) : Number.NaN;
  return Number.isNaN(timeMs) ? null : timeMs;
}

/** Whether an `unavailable` of this room says that nothing listens there for what was asked. */
export function isNobodyThere(failure: unknown): boolean {
  const cause = failure instanceof LemonError ? failure.cause : null;
  return (
    cause instanceof errors.NoRespondersError ||
    (cause instanceof errors.RequestError && cause.isNoResponders())
  );
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

/** A member of an object as it came; undefined of anything else. */
export function member(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}
