/**
 * Owns what is kept of a job for ever: its receipt's state, and the canonical form of its intent. No
 * credential, no line of its log and no progress is in it.
 */
import { z } from "zod";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import { type JobView, job } from "../../protocol/host-agent/job.ts";
import type { ReceiptKind } from "../../transport/receipts/receipt.ts";

const END_STATUSES = ["completed", "failed", "cancelled", "stalled", "outcome_unknown"] as const;

const jobState = z.strictObject({
  /** `started` is written before the first step; `ended` is final. */
  phase: z.enum(["queued", "started", "ended"]),
  kind: z.string(),
  queuedAtMs: z.number(),
  startedAtMs: z.number().nullable(),
  /** Null while it goes on, and where nobody saw the end. */
  endedAtMs: z.number().nullable(),
  /** Of an end. */
  status: z.enum(END_STATUSES).nullable(),
  result: job.shape.result.unwrap().nullable(),
  error: job.shape.error.unwrap().nullable(),
});
export type JobState = z.infer<typeof jobState>;

/** How a job came to its end. */
export interface JobEnd {
  readonly status: (typeof END_STATUSES)[number];
  readonly result: JobState["result"];
  readonly error: JobState["error"];
}

export function queued(kind: string, queuedAtMs: number): JobState {
  const open = { startedAtMs: null, endedAtMs: null, status: null, result: null, error: null };
  return { phase: "queued", kind, queuedAtMs, ...open };
}

export function started(state: JobState, startedAtMs: number): JobState {
  return { ...state, phase: "started", startedAtMs };
}

export function ended(state: JobState, end: JobEnd, endedAtMs: number | null): JobState {
  return { ...state, ...end, phase: "ended", endedAtMs };
}

export function failedWith(error: HostAgentError): JobEnd {
  return { status: "failed", result: null, error: error.refusal };
}

/** It had not begun when the agent ended. */
export const NEVER_BEGUN: JobEnd = {
  status: "cancelled",
  result: null,
  error: new HostAgentError("agent-restarted").refusal,
};
/** It had begun, and nobody saw its end. */
export const CUT_OFF: JobEnd = {
  status: "outcome_unknown",
  result: null,
  error: new HostAgentError("outcome-unknown").refusal,
};

export const jobReceipts: ReceiptKind<JobState> = {
  bucket: "jobs",
  parse: (stored) => jobState.parse(stored),
  rank: ({ phase }) => ({ queued: 0, started: 1, ended: 2 })[phase],
  interrupted(state) {
    if (state.phase === "ended") return null;
    return ended(state, state.phase === "queued" ? NEVER_BEGUN : CUT_OFF, null);
  },
  lost: ended(queued("unknown", 0), CUT_OFF, null),
};

/**
 * What makes two requests the same job: one JSON text whatever the order of the names. It holds what the
 * request held, credentials too: whoever asked for it zeroes it after use.
 */
export function intentOf(kind: string, body: unknown): Buffer {
  const ordered = (_name: string, value: unknown): unknown =>
    isPlain(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
  return Buffer.from(JSON.stringify([kind, body], ordered));
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A stored state as it reads on the wire. One that goes on belongs to this life, and reads otherwise. */
export function viewOf(jobId: string, state: JobState): JobView {
  const { kind, startedAtMs, endedAtMs, status, result, error } = state;
  const going = state.phase === "queued" ? "queued" : "running";
  return {
    job_id: jobId,
    kind,
    status: status ?? going,
    ...(startedAtMs === null ? {} : { started_at: timeOf(startedAtMs) }),
    ...(endedAtMs === null ? {} : { finished_at: timeOf(endedAtMs) }),
    ...(result === null ? {} : { result }),
    ...(error === null ? {} : { error }),
  };
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
