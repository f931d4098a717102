/** Declares how a device (a phone, a remote control) gets a session of its own (control-plane-wire.md 2.5). */
import { z } from "zod";
import { method } from "../method.ts";
import { nodeType, shortText } from "./enrolment.ts";
import { displayName } from "./nodes.ts";

const summary = z.looseObject({});
const pairingId = shortText.describe("Names the request.");

export const devicePairRequest = method({
  name: "device.pair.request",
  summary: "Asks that a device be paired.",
  scopes: ["admin"],
  effect: "mutation",
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

export const devicePairApprove = method({
  name: "device.pair.approve",
  summary: "Approves the device; answers its id and a challenge of 60 s.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({ pairingId }),
  result: z.object({
    pairingId: z.string(),
    deviceId: z.string(),
    challengeToken: z.string().describe("For `connect.challenge`: one use, 60 s."),
    approved: z.literal(true),
    summary,
  }),
});

export const devicePairReject = method({
  name: "device.pair.reject",
  summary: "Refuses a device's pairing request.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({ pairingId }),
  result: z.object({ pairingId: z.string(), rejected: z.literal(true), summary }),
});
