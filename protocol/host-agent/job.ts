/** Owns what a job and a line of its log look like on the wire. */
import { z } from "zod";

const JOB_STATUSES = [
  "queued",
  "running",
  "cancelling",
  "completed",
  "failed",
  "cancelled",
  "stalled",
  "outcome_unknown",
] as const;

export const jobStatus = z.enum(JOB_STATUSES);

/** `j_` and lower-case hexadecimal digits. */
export const jobId = z
  .string()
  .regex(/^j_[0-9a-f]{6,32}$/)
  .describe("Given by host-agent.");

export const job = z
  .object({
    job_id: jobId,
    kind: z.string(),
    status: jobStatus,
    queue_position: z.int().min(1).optional().describe("Of a queued job, from 1."),
    progress: z.number().min(0).max(1).optional(),
    started_at: z.iso.datetime().optional(),
    finished_at: z.iso.datetime().optional(),
    result: z.record(z.string(), z.unknown()).optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
  })
  .meta({ id: "Job" });
export type JobView = z.infer<typeof job>;

const FINAL: ReadonlySet<JobView["status"]> = new Set<JobView["status"]>([
  "completed",
  "failed",
  "cancelled",
  "stalled",
  "outcome_unknown",
]);

/** Whether nothing will change any more. One that is stalled is still being stopped until it has `finished_at`. */
export function hasEnded({ status, finished_at }: JobView): boolean {
  return FINAL.has(status) && (status !== "stalled" || finished_at !== undefined);
}

/** One frame of a log: a line, or that some were lost. */
export const logLine = z.union([
  z.object({
    ts: z.iso.datetime(),
    stream: z.enum(["stdout", "stderr"]),
    line: z.string(),
  }),
  z.object({ lost: z.literal(true) }),
]);
export type LogFrame = z.infer<typeof logLine>;

/** What an `Idempotency-Key` may be. */
export const idempotencyKey = z
  .string()
  .regex(
    /^[A-Za-z0-9_:-]{1,128}$/,
    "Idempotency-Key must be 1 to 128 of letters, digits, _, : and -",
  );
