/** Declares native processes on a node (node-host-io.md, "Native processes"): the fields are exact. */
import { z } from "zod";
import { base64Field } from "../base64.ts";
import { processId } from "../ids.ts";
import { method } from "../method.ts";
import {
  isConsistent,
  PROCESS_BOUNDS,
  PROCESS_STATES,
  type ProcessReceipt,
  runFields,
} from "../process.ts";
import { nodeSelector } from "./nodes.ts";

const output = base64Field(PROCESS_BOUNDS.outputBytes.max).nullable();

const receiptFields = {
  processId: z.string(),
  nodeId: z.string(),
  /** Only an exit that was really observed; 128 + N for a death by signal N. */
  exitCode: z.int().nullable(),
  /** Captured bytes; "" is known to be empty, null is not available. */
  stdoutBase64: output,
  stderrBase64: output,
  outputTruncated: z.boolean(),
};

const receiptOrAbsence = z
  .strictObject({ ...receiptFields, state: z.enum([...PROCESS_STATES, "not_found"]) })
  .refine(canBeTrue);
const receipt = z
  .strictObject({ ...receiptFields, state: z.enum(PROCESS_STATES) })
  .refine(canBeTrue);

function canBeTrue(
  told: Pick<ProcessReceipt, "state" | "exitCode" | "outputTruncated"> &
    Readonly<Record<"stdoutBase64" | "stderrBase64", string | null>>,
): boolean {
  return isConsistent({ ...told, outputs: [told.stdoutBase64, told.stderrBase64] });
}

/** A receipt about anything else answers nothing. */
const echoes = ["nodeId", "processId"] as const;

/** What the broker and the control plane wait beyond a run's own timeout, in ms. */
const BROKER_GRACE_MS = 5_000;

export const nodeProcessRun = method({
  name: "node.process.run",
  summary: "Runs a literal argv on the node once, and answers the final receipt.",
  scopes: ["admin"],
  effect: "mutation",
  unknownParams: "refused",
  params: z.object({
    nodeId: nodeSelector,
    processId,
    cwd: runFields.cwd,
    argv: runFields.argv,
    stdinBase64: base64Field(PROCESS_BOUNDS.stdinBytes),
    timeoutMs: runFields.timeoutMs,
    maxOutputBytes: runFields.maxOutputBytes,
  }),
  result: receipt,
  echoes,
  deadlineMs: ({ timeoutMs }) => timeoutMs + BROKER_GRACE_MS,
});

export const nodeProcessGet = method({
  name: "node.process.get",
  summary: "Reads the receipt of a process id, or its proven absence. Never starts anything.",
  scopes: ["admin"],
  effect: "read",
  unknownParams: "refused",
  params: z.object({ nodeId: nodeSelector, processId }),
  result: receiptOrAbsence,
  echoes,
});

export const nodeProcessCancel = method({
  name: "node.process.cancel",
  summary: "Cancels a run, or spends an unused id on a durable tombstone.",
  scopes: ["admin"],
  effect: "mutation",
  // A tombstone and a cancelled run read the same when the call is repeated.
  retrySafe: true,
  unknownParams: "refused",
  params: z.object({ nodeId: nodeSelector, processId }),
  result: receipt,
  echoes,
});
