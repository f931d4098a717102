/**
 * Owns a job service for tests: a real actor system on a bent clock, receipts in memory, and kinds whose work a
 * test leads by hand.
 */
import type { CommandGround } from "../../actors/job/command.ts";
import type { JobKind, JobTools } from "../../actors/job/kind.ts";
import type { FrameReader, JobResult, Jobs, LogLine } from "../../actors/job/messages.ts";
import { jobKind, type RegisteredKind } from "../../actors/job/registry.ts";
import { startJobService } from "../../actors/job/service.ts";
import { type JobState, jobReceipts } from "../../actors/job/state.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import type { JobView } from "../../protocol/host-agent/job.ts";
import { FakeSpawner } from "./fake-spawner.ts";
import { type Disk, MemoryReceipts } from "./memory-receipts.ts";
import { PATH } from "./native-run.ts";
import { type TestSystem, testSystem } from "./supervision.ts";

/** One run of a demo kind: a test says what it does, and when it ends. */
export interface DemoRun {
  readonly body: unknown;
  readonly password: Uint8Array;
  readonly tools: JobTools;
  finish(result?: JobResult): void;
  fail(failure: unknown): void;
}

interface DemoRequest {
  readonly body: unknown;
  readonly password: Buffer;
}

export class Demo {
  /** In the order in which they began. */
  readonly runs: DemoRun[] = [];
  /** What every run does by itself; a test leads those that do nothing. */
  work: ((tools: JobTools) => Promise<JobResult>) | null = null;

  kind(name: string, changes: Partial<JobKind<DemoRequest>> = {}): RegisteredKind {
    return jobKind<DemoRequest>({
      name,
      maxDurationMs: 60_000,
      dangerous: false,
      resourceClass: "none",
      stallPolicy: "none",
      whenBusy: "queue",
      read: (body) => {
        if (body === "bad") throw new HostAgentError("bad-request");
        return { body, password: Buffer.from("sesame") };
      },
      credentials: ({ password }) => [password],
      run: ({ request, ...tools }) => this.#begin(request, tools),
      ...changes,
    });
  }

  #begin({ body, password }: DemoRequest, tools: JobTools): Promise<JobResult> {
    const { promise, resolve, reject } = Promise.withResolvers<JobResult>();
    this.runs.push({
      body,
      password,
      tools,
      finish: (result = {}) => resolve(result),
      fail: reject,
    });
    return this.work === null ? promise : this.work(tools);
  }

  run(at: number): DemoRun {
    const run = this.runs[at];
    if (run === undefined) throw new Error(`only ${this.runs.length} jobs have begun`);
    return run;
  }
}

export interface JobRoom extends AsyncDisposable {
  readonly jobs: Jobs;
  readonly demo: Demo;
  readonly receipts: MemoryReceipts<JobState>;
  readonly system: TestSystem;
  readonly spawner: FakeSpawner;
  /** Lets everything that is under way come to rest. */
  rest(): Promise<void>;
  /** Starts a job without a key, and lets it begin. */
  start(kind: string, body?: unknown): Promise<string>;
  statusOf(id: string): Promise<JobView["status"]>;
}

export interface JobRoomOptions {
  readonly kinds: (demo: Demo) => readonly RegisteredKind[];
  /** What an earlier life left. */
  readonly disk?: Disk<JobState>;
  readonly generation?: number;
  readonly ground?: Partial<CommandGround>;
  /** Where its actors live; else a system of its own. */
  readonly system?: TestSystem;
}

export async function jobRoom(options: JobRoomOptions): Promise<JobRoom> {
  const demo = new Demo();
  const system = options.system ?? testSystem();
  const { clock, log } = system;
  const spawner = new FakeSpawner();
  const receipts = new MemoryReceipts(jobReceipts, options.generation ?? 1, options.disk);
  const jobs = await startJobService(system.root, {
    kinds: options.kinds(demo),
    receipts,
    spawner: () => spawner,
    environment: { PATH },
    clock,
    log,
    ...options.ground,
  });
  return {
    jobs,
    demo,
    receipts,
    system,
    spawner,
    rest: () => clock.advance(0),
    async start(kind, body = {}) {
      const { job_id } = await jobs.start(kind, body, null);
      await clock.advance(0);
      return job_id;
    },
    statusOf: async (id) => (await jobs.get(id)).status,
    async [Symbol.asyncDispose]() {
      receipts.letGo();
      receipts.comeBack();
      demo.work = async () => ({});
      for (const run of demo.runs) run.finish();
      await clock.advance(0);
      await system.shutdown();
    },
  };
}

/** The text of every line until the log's end. */
export async function linesOf(reader: FrameReader<LogLine>): Promise<(string | null)[]> {
  const lines: (string | null)[] = [];
  for (;;) {
    const frames = await reader.next();
    if (frames === null) return lines;
    lines.push(...frames.map(({ data }) => ("lost" in data ? null : data.line)));
  }
}

/** The code a call is refused with. */
export async function refusedWith(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "answered",
    (failure: unknown) =>
      failure instanceof HostAgentError ? failure.code : `not of the table: ${failure}`,
  );
}
