/** Declares native processes on a node (node-host-io.md, "Native processes"): the fields are exact. */
import { z } from "zod";
import { base64Bytes, base64Field } from "../base64.ts";
import { processId } from "../ids.ts";
import { method, settledBy } from "../method.ts";
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
  exitCode: z
    .int()
    .nullable()
    .describe("Only an exit that was really observed; 128 + N for a death by signal N."),
  stdoutBase64: output.describe('Captured bytes; "" is known to be empty, null is not available.'),
  stderrBase64: output.describe("As `stdoutBase64`."),
  outputTruncated: z.boolean().describe("Whether output is missing, in part or all of it."),
};
const state = z
  .enum(PROCESS_STATES)
  .describe("What is known of the run; `outcome_unknown` is final and is never run again.");
const stateOrAbsence = z
  .enum([...PROCESS_STATES, "not_found"])
  .describe("As for `node.process.run`; `not_found` proves that the id was never used.");

const receiptOrAbsence = z
  .strictObject({ ...receiptFields, state: stateOrAbsence })
  .refine(canBeTrue);
const receipt = z.strictObject({ ...receiptFields, state }).refine(canBeTrue);

function canBeTrue(
  told: Pick<ProcessReceipt, "state" | "exitCode" | "outputTruncated"> &
    Readonly<Record<"stdoutBase64" | "stderrBase64", string | null>>,
): boolean {
  return isConsistent({ ...told, outputs: [told.stdoutBase64, told.stderrBase64] });
}

const nodeId = nodeSelector.describe(
  "The node's durable id alone: a name can pass to another node.",
);

/** A receipt about anything else answers nothing. */
const echoes = ["nodeId", "processId"] as const;

/** What the broker and the control plane wait beyond a run's own timeout, in ms. */
const BROKER_GRACE_MS = 5_000;

/** Ids, state and framing of a receipt. */
const FRAMING_BYTES = 1_024;

export const nodeProcessGet = method({
  name: "node.process.get",
  summary: "Reads the receipt of a process id, or its proven absence. Never starts anything.",
  scopes: ["admin"],
  effect: "read",
  unknownParams: "refused",
  params: z.object({ nodeId, processId }),
  answerBytes: () => FRAMING_BYTES + base64Bytes(PROCESS_BOUNDS.outputBytes.max),
  result: receiptOrAbsence,
  echoes,
});

export const nodeProcessRun = method({
  name: "node.process.run",
  summary: "Runs a literal argv on the node once, and answers the final receipt.",
  scopes: ["admin"],
  effect: "mutation",
  unknownParams: "refused",
  params: z.object({
    nodeId,
    processId,
    cwd: runFields.cwd,
    argv: runFields.argv,
    stdinBase64: base64Field(PROCESS_BOUNDS.stdinBytes).describe(
      'All of its standard input; "" is none.',
    ),
    timeoutMs: runFields.timeoutMs,
    maxOutputBytes: runFields.maxOutputBytes,
  }),
  result: receipt,
  echoes,
  settledBy: settledBy(nodeProcessGet, "nodeId", "processId"),
  deadlineMs: ({ timeoutMs }) => timeoutMs + BROKER_GRACE_MS,
});

export const nodeProcessCancel = method({
  name: "node.process.cancel",
  summary: "Cancels a run, or spends an unused id on a durable tombstone.",
  scopes: ["admin"],
  effect: "mutation",
  // A tombstone and a cancelled run read the same when the call is repeated.
  retrySafe: true,
  unknownParams: "refused",
  params: z.object({ nodeId, processId }),
  result: receipt,
  echoes,
  settledBy: settledBy(nodeProcessGet, "nodeId", "processId"),
});

export const PROCESS_METHODS = [nodeProcessGet, nodeProcessRun, nodeProcessCancel] as const;
