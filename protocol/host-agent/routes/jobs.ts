/** Declares jobs: starting, reading, cancelling and following them; and the live log of a container. */
import { z } from "zod";
import { job, jobId, logLine } from "../job.ts";
import { requiredText, route } from "../route.ts";

const start = {
  method: "POST",
  result: job,
  status: 202,
  idempotencyKey: true,
} as const;

export const systemUpdate = route({
  name: "systemUpdate",
  path: "/v1/jobs/system-update",
  summary: "Updates the system; without a body all of it. A second one at a time is refused.",
  ...start,
  body: z.object({ brain_image: z.string().optional(), ui_image: z.string().optional() }),
  errors: ["job-running", "update-unsupported", "too-many-jobs", "idempotency-conflict"],
  failure: "update-failed",
});

const admin = {
  admin_user: requiredText("admin_user is required"),
  admin_password: requiredText("admin_password is required"),
};

export const enrollDrive = route({
  name: "enrollDrive",
  path: "/v1/jobs/enroll-drive",
  summary: "Formats, encrypts and adds a data drive, in the name of an admin.",
  ...start,
  body: z.object({ device: requiredText("device is required"), ...admin }),
  errors: ["bad-request", "too-many-jobs", "idempotency-conflict"],
});

export const ejectDrive = route({
  name: "ejectDrive",
  path: "/v1/jobs/eject-drive",
  summary: "Takes the data drive out of use, in the name of an admin.",
  ...start,
  body: z.object(admin),
  errors: ["bad-request", "too-many-jobs", "idempotency-conflict"],
});

export const jobList = route({
  name: "jobList",
  method: "GET",
  path: "/v1/jobs",
  summary: "The jobs this agent knows, the newest first.",
  result: z.object({ jobs: z.array(job) }),
});

export const jobGet = route({
  name: "jobGet",
  method: "GET",
  path: "/v1/jobs/{id}",
  summary: "One job as it stands.",
  params: z.object({ id: z.string() }),
  result: job,
  errors: ["unknown-job"],
});

export const jobCancel = route({
  name: "jobCancel",
  method: "POST",
  path: "/v1/jobs/{id}/cancel",
  summary: "Asks a job to stop: SIGTERM, 10 s, SIGKILL; one that has ended keeps its end.",
  params: z.object({ id: z.string() }),
  body: z.object({}),
  result: z.object({ job_id: jobId, status: job.shape.status }),
  errors: ["unknown-job"],
});

export const jobLog = route({
  name: "jobLog",
  method: "GET",
  path: "/v1/jobs/{id}/log",
  summary: "A job's output, replayed from the last 256 KiB and then live; it ends with the job.",
  params: z.object({ id: z.string() }),
  result: logLine,
  errors: ["unknown-job", "too-many-streams"],
  stream: "sse",
});

export const journalFollow = route({
  name: "journalFollow",
  method: "GET",
  path: "/v1/journal/follow",
  summary:
    "A container's output: its last 100 lines, then live; a reconnect begins with a lost frame.",
  query: z.object({ container: requiredText("container is required") }),
  result: logLine,
  errors: ["bad-request", "logs-unsupported", "too-many-streams"],
  failure: "journal-follow-failed",
  stream: "sse",
});

export const openApi = route({
  name: "openApi",
  method: "GET",
  path: "/v1/openapi.json",
  summary: "This socket's routes as an OpenAPI 3.1 document.",
  result: z.record(z.string(), z.unknown()),
});
