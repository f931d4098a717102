/**
 * Owns what the controller knows of an enrolled node for good, and every change that can befall it.
 * Pure: a change takes a record and gives the next; `registry.ts` writes it.
 *
 * 1. `nodeId` never changes. `generation` and `sessionGeneration` only rise.
 * 2. At most one worker life is current. A link key that was current once is never current again.
 * 3. A session token is known by its SHA-256 alone. It opens connections while no token issued after it
 *    was used: so a lost answer strands nobody, and a copy that falls behind is worth nothing.
 * 4. The store's id is set once; its sequence only rises.
 * 5. Every list is bounded.
 */
import { z } from "zod";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId, NodeKey } from "../../protocol/ids.ts";
import { nodeId } from "../../protocol/ids.ts";
import { capabilities } from "../../protocol/methods/enrolment.ts";
import { nodeHostInfo } from "../../protocol/methods/nodes.ts";
import {
  nodeProcessCancel,
  nodeProcessGet,
  nodeProcessRun,
} from "../../protocol/methods/process.ts";

/** How long a session token opens connections, in ms (control-plane-wire.md 2.4). */
export const SESSION_TTL_MS = 604_800_000;
/** Lives remembered by their key: an older one is stopped by its session token. */
const MAX_RETIRED_LINK_KEYS = 64;
/** Tokens issued since the last one that was used: answers can be lost, but not this many in a row. */
const MAX_UNUSED_SESSIONS = 8;
/** Tokens that fell behind, kept so that a worker that offers one learns why it is refused. */
const MAX_SPENT_SESSIONS = 16;

const timeMs = z.int().nonnegative();
const count = z.int().nonnegative();
const hash = z.string().regex(/^[0-9a-f]{64}$/);

const session = z.strictObject({
  /** SHA-256 of the token, hex. */
  hash,
  generation: count,
  issuedAtMs: timeMs,
  expiresAtMs: timeMs,
});
export type Session = Readonly<z.infer<typeof session>>;

const life = z.strictObject({
  linkKey: z.string(),
  sealKey: z.string(),
  serverName: z.string(),
  lemonVersion: z.string(),
  capabilities,
  openedAtMs: timeMs,
});

export const nodeRecord = z.strictObject({
  version: z.literal(1),
  nodeId,
  name: z.string(),
  type: z.string(),
  /** The node inside the controller's own process (`lemon up`). */
  local: z.boolean(),
  /** As the machine declared them when it was paired. */
  capabilities,
  pairedAtMs: timeMs,
  lastSeenMs: timeMs.nullable(),
  /** SHA-256 of the recovery token; null when none was ever given out. */
  recoveryHash: hash.nullable(),
  /** Cut off by an operator, until it is joined again. */
  revoked: z.boolean(),
  /** How often it was cut off: what was granted before the last time is void. */
  revocations: count,
  /** Removal has begun: hidden, its name free; only what is left on the hub is still to do. */
  removing: z.boolean(),
  /** Generation of the newest token that was used; 0 while none was. */
  sessionGeneration: count,
  sessions: z.array(session),
  /** Public key of the node's account on the hub; null until its first link. */
  nodeKey: z
    .string()
    .transform((key) => key as NodeKey)
    .nullable(),
  /** The local node's second account, which holds its receipts on the hub; null for every other node. */
  storeKey: z
    .string()
    .transform((key) => key as NodeKey)
    .nullable(),
  /** Number of the newest worker life; 0 while there was none. */
  generation: count,
  /** The worker life that may serve; null before the first and after a revocation. */
  life: life.nullable(),
  retiredLinkKeys: z.array(z.string()),
  /** Retired, and the hub has not confirmed yet that it cut them. */
  uncutLinkKeys: z.array(z.string()),
  store: z.strictObject({ id: z.string(), sequence: count }).nullable(),
});
export type NodeRecord = Readonly<z.infer<typeof nodeRecord>>;

export interface Enrolment {
  readonly nodeId: NodeId;
  readonly name: string;
  readonly type: string;
  readonly capabilities: NodeRecord["capabilities"];
  readonly recoveryHash: string | null;
  readonly local: boolean;
}

export function enrolled(enrolment: Enrolment, nowMs: number): NodeRecord {
  return {
    version: 1,
    ...enrolment,
    pairedAtMs: nowMs,
    lastSeenMs: null,
    revoked: false,
    revocations: 0,
    removing: false,
    sessionGeneration: 0,
    sessions: [],
    nodeKey: null,
    storeKey: null,
    generation: 0,
    life: null,
    retiredLinkKeys: [],
    uncutLinkKeys: [],
    store: null,
  };
}

/** Another pairing takes the place of one whose machine never got further than the approval. */
export function enrolledAnew(
  unclaimed: NodeRecord,
  enrolment: Enrolment,
  nowMs: number,
): NodeRecord {
  const { nodeId, revocations } = unclaimed;
  return { ...enrolled({ ...enrolment, nodeId }, nowMs), revocations };
}

/** Nobody ever held a session of it. */
export function isUnclaimed(record: NodeRecord): boolean {
  return !record.local && record.sessionGeneration === 0;
}

/**
 * Whether its `/ws` connection is all there is to reach it by: no worker of it ever opened a link, and it did
 * not say that one will (by declaring what is only ever called over a link).
 */
export function isServedBySocket({
  local,
  generation,
  capabilities: declared,
}: NodeRecord): boolean {
  return !local && generation === 0 && !LINK_METHODS.some((name) => Object.hasOwn(declared, name));
}
const LINK_METHODS = [
  nodeHostInfo.name,
  nodeProcessRun.name,
  nodeProcessGet.name,
  nodeProcessCancel.name,
] as const;

/** A token as it is issued. */
export interface IssuedToken {
  readonly hash: string;
  readonly issuedAtMs: number;
}

/** The node in the controller's own process has no credentials to lose, and is no other machine's to take. */
export function refuseLocal({ local }: NodeRecord): void {
  if (!local) return;
  throw new LemonError("conflict", {
    message:
      "The local node is a part of its controller: it can be neither revoked nor recovered; once it is removed, the next `lemon up` begins a new one",
  });
}

/** A joined machine's first token: valid at once, and every older token is not. */
export function sessionBegun(record: NodeRecord, token: IssuedToken): NodeRecord {
  const issued = tokenIssued(record, token);
  return { ...used(issued, newestGeneration(issued)), revoked: false };
}

/** A token beside those that are still good; they stay so until it, or a newer one, is used. */
export function tokenIssued(record: NodeRecord, token: IssuedToken): NodeRecord {
  const next: Session = {
    ...token,
    generation: newestGeneration(record) + 1,
    expiresAtMs: token.issuedAtMs + SESSION_TTL_MS,
  };
  return { ...record, sessions: kept([...record.sessions, next], record.sessionGeneration) };
}

export function tokenUsed(record: NodeRecord, token: Session): NodeRecord {
  return token.generation > record.sessionGeneration ? used(record, token.generation) : record;
}

export function tokenDropped(record: NodeRecord, token: Session): NodeRecord {
  return { ...record, sessions: record.sessions.filter(({ hash }) => hash !== token.hash) };
}

/** How a worker life shows itself (`node.link.open`). */
export interface Opening {
  readonly linkKey: string;
  readonly sealKey: string;
  readonly serverName: string;
  readonly lemonVersion: string;
  readonly capabilities: NodeRecord["capabilities"];
  readonly storeId: string | null;
  readonly storeSequence: number | null;
}

/** Throws what refuses a life that shows this link key, through a session of this generation (null: the local node). */
export function admitLife(
  record: NodeRecord,
  linkKey: string,
  sessionGeneration: number | null,
): void {
  if (record.revoked) throw new LemonError("node_revoked");
  const behind = sessionGeneration !== null && sessionGeneration < record.sessionGeneration;
  if (behind || record.retiredLinkKeys.includes(linkKey)) throw new LemonError("node_superseded");
}

/** A new life takes over; the one before is retired and its key has to be cut. */
export function lifeOpened(record: NodeRecord, opening: Opening, nowMs: number): NodeRecord {
  const { storeId, storeSequence, ...life } = opening;
  const retired = lifeRetired(record);
  return storeSeen(
    {
      ...retired,
      generation: record.generation + 1,
      life: { ...life, openedAtMs: nowMs },
      lastSeenMs: nowMs,
    },
    storeId,
    storeSequence,
  );
}

/** The current life shows itself again; what it is does not change while it lives. */
export function lifeRenewed(record: NodeRecord, opening: Opening, nowMs: number): NodeRecord {
  const { storeId, storeSequence } = opening;
  return storeSeen({ ...record, lastSeenMs: nowMs }, storeId, storeSequence);
}

export function lifeRetired(record: NodeRecord): NodeRecord {
  if (record.life === null) return record;
  const { linkKey } = record.life;
  return {
    ...record,
    life: null,
    retiredLinkKeys: [...record.retiredLinkKeys, linkKey].slice(-MAX_RETIRED_LINK_KEYS),
    uncutLinkKeys: [...record.uncutLinkKeys, linkKey],
  };
}

export function linkKeysCut(record: NodeRecord, cut: readonly string[]): NodeRecord {
  return { ...record, uncutLinkKeys: record.uncutLinkKeys.filter((key) => !cut.includes(key)) };
}

/** Whatever the machine holds is worth nothing from here on, its recovery token too. */
export function revoked(record: NodeRecord): NodeRecord {
  if (record.revoked) return record;
  return {
    ...lifeRetired(record),
    revoked: true,
    revocations: record.revocations + 1,
    recoveryHash: null,
  };
}

export function removalBegun(record: NodeRecord): NodeRecord {
  return { ...revoked(record), removing: true, sessions: [] };
}

/** Remembers the store on first sight, and how far it was seen; a foreign store changes nothing. */
export function storeSeen(
  record: NodeRecord,
  id: string | null,
  sequence: number | null,
): NodeRecord {
  if (id === null) return record;
  const known = record.store;
  if (known === null) return { ...record, store: { id, sequence: sequence ?? 0 } };
  if (known.id !== id || sequence === null || sequence <= known.sequence) return record;
  return { ...record, store: { id, sequence } };
}

function newestGeneration({ sessions, sessionGeneration }: NodeRecord): number {
  return sessions.reduce(
    (newest, { generation }) => Math.max(newest, generation),
    sessionGeneration,
  );
}

function used(record: NodeRecord, generation: number): NodeRecord {
  return {
    ...record,
    sessionGeneration: generation,
    sessions: kept(record.sessions, generation),
  };
}

/** Tokens stand in the order of their generations; the newest of each sort are kept. */
function kept(sessions: readonly Session[], sessionGeneration: number): Session[] {
  const spent = sessions.filter(({ generation }) => generation < sessionGeneration);
  const current = sessions.filter(({ generation }) => generation === sessionGeneration);
  const unused = sessions.filter(({ generation }) => generation > sessionGeneration);
  return [...spent.slice(-MAX_SPENT_SESSIONS), ...current, ...unused.slice(-MAX_UNUSED_SESSIONS)];
}
