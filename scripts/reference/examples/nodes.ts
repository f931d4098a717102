/** Examples of the methods of `protocol/methods/nodes.ts`: the registry of nodes. */
import type { NODE_METHODS } from "../../../protocol/methods/nodes.ts";
import { LEMON_VERSION } from "../../../protocol/version.ts";
import { atMs, capabilities, type ExamplesOf, nodeId, nodeName } from "./cast.ts";

const node = {
  nodeId,
  name: nodeName,
  type: "machine",
  capabilities,
  status: "online",
  pairedAtMs: atMs - 86_400_000,
  lastSeenMs: atMs,
} as const;

export const NODE_EXAMPLES: ExamplesOf<typeof NODE_METHODS> = {
  "node.describe": {
    params: { nodeId: nodeName },
    result: {
      ...node,
      metadata: {
        generation: 3,
        lemonVersion: LEMON_VERSION,
        receipts: { retained: 12, limit: 1_000 },
        receiptStore: "ready",
        hostIo: { "node.fs.read": { done: 128, refused: 1, unknown: 0 } },
      },
      summary: { online: true },
    },
  },
  "node.host.info": {
    params: { nodeId },
    result: {
      hostname: nodeName,
      os: "linux",
      osVersion: "6.12.0",
      arch: "x86_64-unknown-linux-gnu",
      cpuCount: 8,
      memTotalBytes: 16_777_216_000,
      memFreeBytes: 9_663_676_416,
      diskTotalBytes: 107_374_182_400,
      diskFreeBytes: 53_687_091_200,
      uptimeSec: 86_400,
      lemonVersion: LEMON_VERSION,
      defaultCwd: "/srv/project",
      user: "lemon",
    },
  },
  "node.list": { params: {}, result: { nodes: [node], summary: { nodeCount: 1 } } },
  "node.remove": { params: { nodeId }, result: { nodeId, removed: true } },
  "node.rename": {
    params: { nodeId, name: "worker-2" },
    result: { nodeId, name: "worker-2", renamed: true, summary: { renamed: true } },
  },
  "node.revoke": { params: { nodeId }, result: { nodeId, revoked: true } },
};
