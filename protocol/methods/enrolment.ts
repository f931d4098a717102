/**
 * Declares how a machine becomes a node (control-plane-wire.md 2.4, 2.5 and 5.1): pairing, the
 * challenge that yields a session token, and the opening of a worker life's NATS link.
 */
import { z } from "zod";
import { method, settledBy } from "../method.ts";
import { nodeName } from "./nodes.ts";

/** How the controller ends a node's `/ws` session. */
export const NODE_CLOSE = {
  /** A newer connection of the same node took its place; nothing is wrong. */
  replaced: { code: 4001, reason: "replaced" },
  /** The node was revoked or removed: only an operator brings it back. */
  revoked: { code: 4003, reason: "revoked" },
  /** A newer worker life serves the node: this one stops its children and ends. */
  superseded: { code: 4004, reason: "superseded" },
} as const;

const timeMs = z.int().nonnegative().describe("Unix time in ms.");
const summary = z.looseObject({}).describe("A digest for people; its members may change.");

/** What a machine says of itself is stored, so all of it together is bounded, as JSON. */
const CAPABILITIES_MAX_CHARS = 16_384;
export const capabilities = z
  .record(z.string(), z.unknown())
  .refine(
    (declared) => JSON.stringify(declared).length <= CAPABILITIES_MAX_CHARS,
    `must be at most ${CAPABILITIES_MAX_CHARS} characters of JSON`,
  )
  .refine(
    (declared) => !Object.keys(declared).some((key) => /\p{C}/u.test(key)),
    "must have no control characters in a key",
  )
  .describe("One key a method or feature; a `{version}` object, or true.");
/** A version as a peer names it: it is shown on terminals. */
export const lemonVersion = z
  .string()
  .regex(/^[\x20-\x7e]{1,64}$/, "must be 1 to 64 printable characters");
/** What a node or a device is, in a word of its own. */
export const nodeType = z
  .string()
  .trim()
  .min(1, "must not be empty")
  .max(128, "must be at most 128 characters")
  .refine((name) => !/\p{C}/u.test(name), "must not contain control characters");
export const shortText = z
  .string()
  .min(1, "must not be empty")
  .max(256, "must be at most 256 characters");

const nodePairList = method({
  name: "node.pair.list",
  summary: "The pairing requests that still wait for a decision.",
  scopes: ["pairing"],
  effect: "read",
  params: z.object({}),
  result: z.object({
    requests: z.array(
      z.object({
        pairingId: z.string(),
        code: z.string(),
        nodeType: z.string(),
        nodeName: z.string(),
        capabilities,
        expiresAtMs: timeMs,
        createdAtMs: timeMs,
      }),
    ),
    summary,
  }),
});

export const nodePairRequest = method({
  name: "node.pair.request",
  summary: "Asks that a machine be enrolled, or recovered under its durable id.",
  scopes: ["pairing"],
  effect: "mutation",
  settledBy: settledBy(nodePairList),
  params: z.object({
    nodeType,
    nodeName,
    capabilities: capabilities.optional(),
    expiresInMs: z
      .int()
      .optional()
      .describe("Accepted for old clients; a request always lives five minutes."),
    nodeId: shortText
      .optional()
      .describe(
        "Recover this durable id instead of making one; needs `recoveryToken` or `repair`.",
      ),
    recoveryToken: shortText.optional().describe("What an approval answered as `token`."),
    repair: z.boolean().optional().describe("Recover it by the authority of whoever approves."),
  }),
  result: z.object({
    pairingId: z.string(),
    code: z.string().describe("What an operator compares before the approval."),
    expiresAtMs: timeMs,
    summary,
  }),
});

const nodePairApprove = method({
  name: "node.pair.approve",
  summary: "Enrols the machine; answers its id, a recovery token (once) and a challenge of 60 s.",
  scopes: ["pairing"],
  effect: "mutation",
  settledBy: settledBy(nodePairList),
  params: z.object({ pairingId: shortText }),
  result: z.object({
    nodeId: z.string().describe("Durable: never changes, never used again."),
    token: z
      .string()
      .optional()
      .describe("The recovery token; absent when the node was recovered by it."),
    challengeToken: z.string().describe("For one `connect.challenge` within 60 s."),
    approved: z.literal(true),
    summary,
  }),
});

const nodePairReject = method({
  name: "node.pair.reject",
  summary: "Refuses a pairing request.",
  scopes: ["pairing"],
  effect: "mutation",
  settledBy: settledBy(nodePairList),
  params: z.object({ pairingId: shortText }),
  result: z.object({ pairingId: z.string(), rejected: z.literal(true), summary }),
});

const nodePairVerify = method({
  name: "node.pair.verify",
  summary: "What became of a pairing code.",
  scopes: [],
  effect: "read",
  params: z.object({ code: shortText }),
  result: z.object({
    valid: z.boolean(),
    status: z.enum(["pending", "approved", "rejected"]),
    pairingId: z.string().optional(),
    summary,
  }),
});

const connectChallenge = method({
  name: "connect.challenge",
  summary: "Exchanges a challenge (one use, 60 s) for a session token of seven days.",
  scopes: [],
  effect: "mutation",
  unsettled:
    "the challenge may be spent; have the request approved again, which answers another one, and exchange that",
  params: z.object({ challenge: shortText }),
  result: z.object({
    verified: z.literal(true),
    identity: z.discriminatedUnion("type", [
      z.object({ type: z.literal("node"), nodeId: z.string(), nodeName: z.string() }),
      z.object({ type: z.literal("device"), deviceId: z.string(), deviceName: z.string() }),
    ]),
    token: z.string().describe("The session token, for `auth.token` of `connect`."),
    summary,
  }),
});

const nodeLinkOpen = method({
  name: "node.link.open",
  summary: "Opens, or renews, the NATS link of one worker life. A newer life ends the one before.",
  scopes: [],
  role: "node",
  effect: "mutation",
  // The same life (the same link key) may ask as often as it likes: it gets fresh credentials.
  retrySafe: true,
  params: z.object({
    linkKey: z
      .string()
      .regex(/^U[A-Z2-7]{55}$/, "must be a public user nkey")
      .describe("Made for this worker life."),
    sealKey: z
      .string()
      .regex(/^X[A-Z2-7]{55}$/, "must be a public curve nkey")
      .describe("X25519, of this worker life; the gateway seals secret values to it."),
    serverName: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,64}$/, "must be 1 to 64 of letters, digits, _ and -")
      .describe("The leaf's NATS server name, made for this worker life."),
    lemonVersion,
    capabilities,
    storeId: z
      .string()
      .max(64)
      .nullish()
      .describe("Identity of the node's receipt store; null when it could not be opened."),
    storeSequence: z
      .int()
      .nonnegative()
      .nullish()
      .describe(
        "Highest witnessed revision of that store, so that a restored older copy is noticed.",
      ),
  }),
  result: z.object({
    nodeId: z.string(),
    nodeName: z.string(),
    nodeKey: z.string().describe("The node's subject key (its account's public key)."),
    generation: z.int().positive().describe("The number of this worker life."),
    linkJwt: z.string().describe("User JWT for `linkKey`."),
    linkLifetimeMs: z
      .int()
      .positive()
      .describe(
        "For how long from now `linkJwt` holds. No time of day: the two clocks may differ by hours.",
      ),
    leafPath: z
      .string()
      .describe(
        "Where the leaf connects, below the controller's own URL; NATS appends `/leafnode`.",
      ),
    leafUrl: z
      .string()
      .max(2_048)
      .nullish()
      .describe(
        "Where it connects instead, when the hub is a NATS system that is not the controller's own: one URL or several separated by commas, each `wss://`, `ws://`, `tls://` or `nats://`. Null or absent: it is.",
      ),
    sessionToken: z
      .string()
      .describe("Takes the place of the token that this connection was opened with."),
    sessionTokenExpiresAtMs: timeMs,
    registeredStoreId: z
      .string()
      .nullable()
      .describe(
        "What the registry knows of the node's store; a worker whose store differs must admit nothing.",
      ),
    registeredStoreSequence: z.int().nonnegative().nullable(),
  }),
});

export const ENROLMENT_METHODS = [
  nodePairList,
  nodePairRequest,
  nodePairApprove,
  nodePairReject,
  nodePairVerify,
  connectChallenge,
  nodeLinkOpen,
] as const;
