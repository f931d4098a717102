/**
 * Owns what is kept of a run for ever: its receipt's state and the canonical form of its intent. Neither
 * argument nor input nor output is in it (node-host-io.md, "Credential privacy").
 */
import { z } from "zod";
import type { ProcessRunRequest } from "../../protocol/process.ts";
import type { ReceiptKind } from "../../transport/receipts/receipt.ts";

const processState = z.strictObject({
  /** `admitted`: the fence, written before the program is started; it reads as `running`. */
  state: z.enum(["admitted", "completed", "cancelled", "outcome_unknown"]),
  /** Only an exit that was observed; 128 + N for a death by signal N. */
  exitCode: z.int().nullable(),
  /** The id was cancelled before any run of it: it has no intent. */
  tombstone: z.boolean(),
});
export type ProcessState = z.infer<typeof processState>;

function state(name: ProcessState["state"], exitCode: number | null = null): ProcessState {
  return { state: name, exitCode, tombstone: false };
}

export const ADMITTED = state("admitted");
/** Never ran, or was stopped and its end was not observed. */
export const CANCELLED = state("cancelled");
export const OUTCOME_UNKNOWN = state("outcome_unknown");
export const TOMBSTONE: ProcessState = { ...CANCELLED, tombstone: true };
export const completed = (exitCode: number): ProcessState => state("completed", exitCode);
export const cancelled = (exitCode: number | null): ProcessState => state("cancelled", exitCode);

export const isFinal = ({ state: name }: ProcessState): boolean => name !== "admitted";

/**
 * A run costs two revisions, the fence and the end. That the program was started is no third one: only
 * the end tells more than the fence does.
 */
export const processRuns: ReceiptKind<ProcessState> = {
  bucket: "process-runs",
  parse: (stored) => processState.parse(stored),
  rank: (stored) => (isFinal(stored) ? 1 : 0),
  interrupted: (stored) => (isFinal(stored) ? null : OUTCOME_UNKNOWN),
  lost: OUTCOME_UNKNOWN,
};

/** What makes two requests the same run (rulings, "Processes"): one line of JSON, then the input. */
export function intentOf(request: ProcessRunRequest): Uint8Array {
  const { cwd, argv, timeoutMs, maxOutputBytes, stdin } = request;
  return Buffer.concat([
    Buffer.from(`${JSON.stringify([cwd, argv, timeoutMs, maxOutputBytes])}\n`),
    stdin,
  ]);
}

/** A tombstone has no intent; no run's is empty. */
export const NO_INTENT = new Uint8Array(0);
