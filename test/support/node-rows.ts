/** Owns well-formed answers for tests that need a node or a receipt and care for one field of it. */
import type { ResultOf } from "../../protocol/methods.ts";

type NodeRow = ResultOf<"node.list">["nodes"][number];
type Receipt = ResultOf<"node.process.get">;

export const NODE_ID = "0d6f2f5e-8d51-4b0f-9a55-2f1f3f1f7a10";

export function nodeRow(fields: Partial<NodeRow> = {}): NodeRow {
  return {
    nodeId: NODE_ID,
    name: "worker-1",
    type: "coding_agent",
    capabilities: { "node.process.run": { version: 1 }, "node.process.get": { version: 1 } },
    status: "online",
    pairedAtMs: 1_796_000_000_000,
    lastSeenMs: 1_796_000_100_000,
    ...fields,
  };
}

export function nodeList(...nodes: readonly NodeRow[]): ResultOf<"node.list"> {
  return { nodes: [...nodes], summary: {} };
}

export function nodeDescription(
  fields: Partial<NodeRow> = {},
  metadata: Partial<ResultOf<"node.describe">["metadata"]> = {},
): ResultOf<"node.describe"> {
  return {
    ...nodeRow(fields),
    metadata: {
      generation: 3,
      lemonVersion: "2026.11.0",
      receipts: { retained: 12, limit: 1_000 },
      receiptStore: "ready",
      ...metadata,
    },
    summary: {},
  };
}

/** A run that ended with exit code 0 and said `out`. */
export function completed(
  processId: string,
  fields: Partial<ResultOf<"node.process.run">> = {},
): ResultOf<"node.process.run"> {
  return {
    processId,
    nodeId: NODE_ID,
    state: "completed",
    exitCode: 0,
    stdoutBase64: base64("out\n"),
    stderrBase64: "",
    outputTruncated: false,
    ...fields,
  };
}

/** A receipt without exit and outputs: `running`, `cancelled`, `outcome_unknown`, `not_found`. */
export function bare<S extends Receipt["state"]>(processId: string, state: S) {
  return {
    processId,
    nodeId: NODE_ID,
    state,
    exitCode: null,
    stdoutBase64: null,
    stderrBase64: null,
    outputTruncated: true,
  };
}

export function base64(bytes: string | Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}
