/**
 * Owns the shapes and bounds of native process runs that gateway and node share (node-host-io.md,
 * "Native processes"). Inside the fleet bytes are bytes; base64 exists only at the `/ws` edge.
 */
import { z } from "zod";
import { processId } from "./ids.ts";
import { nativePath } from "./native-path.ts";

export const PROCESS_BOUNDS = {
  argvEntries: 128,
  /** Each argument, and all together, in UTF-8 bytes without terminators. */
  argvBytes: 131_072,
  stdinBytes: 1_048_576,
  timeoutMs: { min: 1_000, max: 1_800_000 },
  /** Captured stdout and stderr together. */
  outputBytes: { min: 1, max: 1_048_576 },
  activeRuns: 16,
  /** Spent ids a destination retains, tombstones included. */
  retainedIds: 1_000,
  cachedOutputs: 16,
  cachedOutputMs: 24 * 60 * 60 * 1_000,
} as const;

const utf8 = new TextEncoder();
const utf8Bytes = (text: string): number => utf8.encode(text).length;

/** Text that can stand in an argument vector: UTF-8 without NUL. */
const argument = z
  .string()
  .refine((text) => text.isWellFormed(), "must be UTF-8 text")
  .refine((text) => !text.includes("\0"), "must not contain NUL")
  .refine((text) => utf8Bytes(text) <= PROCESS_BOUNDS.argvBytes, "must be at most 131072 bytes");

const argv = z
  .array(argument)
  .min(1, "must name an executable")
  .max(PROCESS_BOUNDS.argvEntries, "must have at most 128 entries")
  .refine((args) => args[0] !== "", "must name an executable")
  .refine(
    (args) => args.reduce((total, arg) => total + utf8Bytes(arg), 0) <= PROCESS_BOUNDS.argvBytes,
    "must be at most 131072 bytes in total",
  );

function between(bound: { readonly min: number; readonly max: number }) {
  const sentence = `must be ${bound.min} to ${bound.max}`;
  return z.int().min(bound.min, sentence).max(bound.max, sentence);
}

/** The fields of a run that read the same on `/ws` and inside the fleet. */
export const runFields = {
  processId,
  cwd: nativePath.describe(
    "Where the process starts; a relative path counts from the node's default working directory.",
  ),
  argv: argv.describe(
    "The literal argument vector; the first names the executable. No shell reads it.",
  ),
  timeoutMs: between(PROCESS_BOUNDS.timeoutMs).describe(
    "How long the process may run before its group is killed, in ms.",
  ),
  maxOutputBytes: between(PROCESS_BOUNDS.outputBytes).describe(
    "Bound of stdout and stderr together, in bytes; beyond it the process group is killed.",
  ),
};

/** A run as the node gets it. */
export const processRunRequest = z.strictObject({
  ...runFields,
  stdin: z
    .instanceof(Uint8Array)
    .refine((bytes) => bytes.length <= PROCESS_BOUNDS.stdinBytes, "must be at most 1048576 bytes"),
});
export type ProcessRunRequest = z.infer<typeof processRunRequest>;

/** What `get` and `cancel` ask the node. */
export const processIdRequest = z.strictObject({ processId });
export type ProcessIdRequest = z.infer<typeof processIdRequest>;

export const PROCESS_STATES = ["running", "completed", "cancelled", "outcome_unknown"] as const;

/**
 * Whether a receipt can be true (node-host-io.md, "Receipt meaning and reconciliation"): a completion has
 * an exit; what runs, is unknown or is not there has neither exit nor output; output that is not at hand
 * is told as truncated.
 */
export function isConsistent(receipt: {
  readonly state: (typeof PROCESS_STATES)[number] | "not_found";
  readonly exitCode: number | null;
  readonly outputs: readonly unknown[];
  readonly outputTruncated: boolean;
}): boolean {
  const { state, exitCode, outputs, outputTruncated } = receipt;
  if (outputs.includes(null) && !outputTruncated) return false;
  if (state === "completed") return exitCode !== null;
  if (state === "cancelled") return true;
  return exitCode === null && outputs.every((output) => output === null);
}

/** The receipt inside the fleet; its seven fields, with bytes as bytes. */
export const processReceipt = z
  .strictObject({
    processId: z.string(),
    nodeId: z.string(),
    state: z.enum([...PROCESS_STATES, "not_found"]),
    exitCode: z.int().nullable(),
    stdout: z.instanceof(Uint8Array).nullable(),
    stderr: z.instanceof(Uint8Array).nullable(),
    outputTruncated: z.boolean(),
  })
  .refine(({ stdout, stderr, ...told }) => isConsistent({ ...told, outputs: [stdout, stderr] }));
export type ProcessReceipt = z.infer<typeof processReceipt>;
