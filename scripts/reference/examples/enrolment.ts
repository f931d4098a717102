/** Examples of the methods of `protocol/methods/enrolment.ts`: how a node is paired and opens its link. */
import type { ENROLMENT_METHODS } from "../../../protocol/methods/enrolment.ts";
import { LEMON_VERSION } from "../../../protocol/version.ts";
import { atMs, capabilities, type ExamplesOf, nodeId, nodeName, pairingId } from "./cast.ts";

export const ENROLMENT_EXAMPLES: ExamplesOf<typeof ENROLMENT_METHODS> = {
  "connect.challenge": {
    params: { challenge: "Q2hhbGxlbmdlIG9mIGFuIGFwcHJvdmFs" },
    result: {
      verified: true,
      identity: { type: "node", nodeId, nodeName },
      token: "U2Vzc2lvbiB0b2tlbiBvZiBhIG5vZGU",
      summary: { verified: true },
    },
  },
  "node.link.open": {
    params: {
      linkKey: `U${"A".repeat(55)}`,
      sealKey: `X${"A".repeat(55)}`,
      serverName: "worker-1-7f3a",
      lemonVersion: LEMON_VERSION,
      capabilities,
      storeId: "b1946ac92492d234",
      storeSequence: 41,
    },
    result: {
      nodeId,
      nodeName,
      nodeKey: `A${"A".repeat(55)}`,
      generation: 4,
      linkJwt: "eyJ0eXAiOiJKV1QifQ…",
      linkLifetimeMs: 3_600_000,
      leafPath: "/",
      leafUrl: null,
      sessionToken: "VGhlIG5leHQgc2Vzc2lvbiB0b2tlbg",
      sessionTokenExpiresAtMs: atMs + 604_800_000,
      registeredStoreId: "b1946ac92492d234",
      registeredStoreSequence: 41,
    },
  },
  "node.pair.approve": {
    params: { pairingId },
    result: {
      nodeId,
      token: "UmVjb3ZlcnkgdG9rZW4gb2YgYSBub2Rl",
      challengeToken: "Q2hhbGxlbmdlIG9mIGFuIGFwcHJvdmFs",
      approved: true,
      summary: { approved: true },
    },
  },
  "node.pair.list": {
    params: {},
    result: {
      requests: [
        {
          pairingId,
          code: "493018",
          nodeType: "machine",
          nodeName,
          capabilities,
          expiresAtMs: atMs + 300_000,
          createdAtMs: atMs,
        },
      ],
      summary: { requestCount: 1 },
    },
  },
  "node.pair.reject": {
    params: { pairingId },
    result: { pairingId, rejected: true, summary: { rejected: true } },
  },
  "node.pair.request": {
    params: { nodeType: "machine", nodeName, capabilities },
    result: {
      pairingId,
      code: "493018",
      expiresAtMs: atMs + 300_000,
      summary: { expiresAtMs: atMs + 300_000 },
    },
  },
  "node.pair.verify": {
    params: { code: "493018" },
    result: { valid: true, status: "pending", pairingId, summary: { status: "pending" } },
  },
};
