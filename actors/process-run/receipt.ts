/**
 * Owns how a stored receipt reads to a caller (node-host-io.md, "Receipt meaning and reconciliation"):
 * what is not known is null, and output that is not at hand is told as truncated.
 */
import type { ProcessReceipt } from "../../protocol/process.ts";
import type { Receipt } from "../../transport/receipts/receipt.ts";
import type { ProcessState } from "./state.ts";

type Bytes = NonNullable<ProcessReceipt["stdout"]>;

/** Captured bytes of a run that ended. */
export interface Outputs {
  readonly stdout: Bytes;
  readonly stderr: Bytes;
  readonly truncated: boolean;
}

/** `receipt` null: a successful strict read found nothing. */
export function readingOf(
  nodeId: string,
  processId: string,
  receipt: Receipt<ProcessState> | null,
  outputs: Outputs | null,
): ProcessReceipt {
  const state = receipt === null ? "not_found" : stateOf(receipt.state);
  const ended = state === "completed" || state === "cancelled" ? outputs : null;
  return {
    processId,
    nodeId,
    state,
    exitCode: receipt?.state.exitCode ?? null,
    stdout: ended?.stdout ?? null,
    stderr: ended?.stderr ?? null,
    outputTruncated: ended?.truncated ?? true,
  };
}

function stateOf({ state }: ProcessState): ProcessReceipt["state"] {
  return state === "admitted" ? "running" : state;
}
