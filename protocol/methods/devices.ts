/** Declares how a device (a phone, a remote control) gets a session of its own (control-plane-wire.md 2.5). */
import { z } from "zod";
import { method, settledBy } from "../method.ts";
import { NODE_CLOSE, nodeType, shortText } from "./enrolment.ts";
import { displayName } from "./nodes.ts";

/** How the controller ends a device's connections, in the words that it has for nodes. */
export const DEVICE_CLOSE = {
  /** The device was given a newer token: this connection's is worth nothing any more. */
  replaced: NODE_CLOSE.replaced,
  /** An operator revoked the device: it has to be paired anew. */
  revoked: NODE_CLOSE.revoked,
} as const;

const timeMs = z.int().nonnegative().describe("Unix time in ms.");
const summary = z.looseObject({});
const pairingId = shortText.describe("Names the request.");

const devicePairRequest = method({
  name: "device.pair.request",
  summary: "Asks that a device be paired.",
  scopes: ["admin"],
  effect: "mutation",
  unsettled:
    "ask anew under another request; one that nobody approves ends by itself after five minutes",
  params: z.object({
    deviceType: nodeType.describe("What kind of device it is, in a word of its own."),
    deviceName: displayName.describe("What operators see; need not be unique."),
    expiresInMs: z
      .int()
      .optional()
      .describe("Accepted for old clients; a request always lives five minutes."),
  }),
  result: z.object({
    pairingId: z.string(),
    code: z.string().describe("Six digits that a human compares."),
    expiresAtMs: z.int().nonnegative(),
    summary,
  }),
});

const devicePairApprove = method({
  name: "device.pair.approve",
  summary: "Approves the device; answers its id and a challenge of 60 s.",
  scopes: ["admin"],
  effect: "mutation",
  // Again, it answers another challenge for the same device.
  retrySafe: true,
  params: z.object({ pairingId }),
  result: z.object({
    pairingId: z.string(),
    deviceId: z.string(),
    challengeToken: z.string().describe("For `connect.challenge`: one use, 60 s."),
    approved: z.literal(true),
    summary,
  }),
});

const devicePairReject = method({
  name: "device.pair.reject",
  summary: "Refuses a device's pairing request.",
  scopes: ["admin"],
  effect: "mutation",
  unsettled: "reject it again; a request that nobody approves ends by itself after five minutes",
  params: z.object({ pairingId }),
  result: z.object({ pairingId: z.string(), rejected: z.literal(true), summary }),
});

const deviceList = method({
  name: "device.list",
  summary: "The devices that hold a session, sorted by name.",
  scopes: ["admin", "pairing"],
  effect: "read",
  params: z.object({}),
  result: z.object({
    devices: z.array(
      z.object({
        deviceId: z.string(),
        deviceName: z.string().describe("Need not be unique."),
        deviceType: z.string(),
        issuedAtMs: timeMs.describe("When its token was given out, in Unix ms."),
        expiresAtMs: timeMs.describe("When its token ends, in Unix ms."),
        connections: z.int().nonnegative().describe("How many it has open now."),
      }),
    ),
    summary,
  }),
});

const deviceRevoke = method({
  name: "device.revoke",
  summary:
    "Cuts a device off at once and for good: its connections, its session token, its challenge. Paired anew it is another device.",
  scopes: ["admin"],
  effect: "mutation",
  settledBy: settledBy(deviceList),
  params: z.object({ deviceId: shortText.describe("Its exact id; names need not be unique.") }),
  result: z.object({ deviceId: z.string(), revoked: z.literal(true) }),
});

export const DEVICE_METHODS = [
  devicePairRequest,
  devicePairApprove,
  devicePairReject,
  deviceList,
  deviceRevoke,
] as const;
