/** Proves the streams of the host-agent's client over cuts, restarts and silence, and jobs that are awaited by them. */
import type { ServerResponse } from "node:http";
import { expect } from "chai";
import { type Frame, HostAgentCallError, type Job } from "../../../client/host-agent/index.ts";
import type { JobView, LogFrame } from "../../../protocol/host-agent/job.ts";
import { ManualTimers } from "../../support/manual-timers.ts";
import { json, ScriptedHostAgent, stream } from "../../support/scripted-host-agent.ts";

const line = (n: number) => ({
  ts: "2026-12-01T00:00:00Z",
  stream: "stdout" as const,
  line: `${n}`,
});

describe("a stream of the host-agent", () => {
  let agent: ScriptedHostAgent;
  let timers: ManualTimers;

  beforeEach(async () => {
    timers = new ManualTimers();
    agent = await ScriptedHostAgent.open(timers);
  });
  afterEach(() => agent.close());

  const follow = (options = {}) =>
    agent.client.stream("jobLog", { params: { id: "j_a4f7b2" } }, options);

  async function all(frames: AsyncIterable<Frame<LogFrame>>): Promise<string[]> {
    const ids: string[] = [];
    for await (const { id } of frames) ids.push(id);
    return ids;
  }

  async function failureOf(frames: AsyncIterable<unknown>): Promise<HostAgentCallError> {
    try {
      for await (const _ of frames);
    } catch (failure) {
      if (failure instanceof HostAgentCallError) return failure;
      throw failure;
    }
    throw new Error("the stream ended");
  }

  /** Lets the pause before the next attempt pass. */
  async function retry(): Promise<void> {
    await timers.armed((delayMs) => delayMs > 0 && delayMs <= 5_000);
    timers.advance(5_000);
  }

  it("gives each frame with its id, and ends where the host ends it", async () => {
    agent.script = (_request, response) => {
      const send = stream(response);
      for (const n of [1, 2, 3]) send(n, line(n));
      response.end();
    };
    const frames: Frame<LogFrame>[] = [];
    for await (const frame of follow()) frames.push(frame);
    expect(frames).to.deep.equal([1, 2, 3].map((n) => ({ id: String(n), data: line(n) })));
  });

  it("comes back behind the last frame that it gave out, however often it is cut", async () => {
    agent.script = (request, response) => {
      const send = stream(response);
      const from = Number(request.headers["last-event-id"] ?? 0);
      send(from + 1, line(from + 1));
      if (from === 2) response.end();
      else response.write(": \n\n", () => setImmediate(() => request.socket.destroy()));
    };
    const ids = all(follow());
    for (let cut = 0; cut < 2; cut += 1) await retry();
    expect(await ids).to.deep.equal(["1", "2", "3"]);
    expect(agent.heard.map(({ headers }) => headers["last-event-id"])).to.deep.equal([
      undefined,
      "1",
      "2",
    ]);
  });

  it("begins where it is told to", async () => {
    agent.script = (_request, response) => stream(response) && response.end();
    await all(follow({ after: "41" }));
    expect(agent.heard[0]?.headers["last-event-id"]).to.equal("41");
  });

  it("outlives a restart of the host-agent", async () => {
    agent.script = (_request, response) => void stream(response)(1, line(1));
    const frames = follow();
    expect((await frames.next()).value?.id).to.equal("1");
    const next = frames.next();
    await agent.unlisten();
    await retry();
    await timers.armed((delayMs) => delayMs > 0 && delayMs <= 5_000);
    await agent.listen();
    agent.script = (_request, response) => {
      stream(response)(2, line(2));
      response.end();
    };
    timers.advance(5_000);
    expect((await next).value?.id).to.equal("2");
    expect((await frames.next()).done).to.equal(true);
  });

  it("is lost when the host-agent stays away longer than it may", async () => {
    agent.script = (_request, response) => void stream(response)(1, line(1));
    const frames = follow({ patienceMs: 10_000 });
    await frames.next();
    const lost = failureOf(frames);
    await agent.unlisten();
    for (let attempt = 0; attempt < 2; attempt += 1) await retry();
    expect((await lost).code).to.equal("stream-lost");
  });

  it("takes a host-agent that sends nothing for 45 s for cut off", async () => {
    let connections = 0;
    agent.script = (_request, response) => {
      connections += 1;
      const send = stream(response);
      send(connections, line(connections));
      if (connections === 2) response.end();
    };
    const frames = follow();
    await frames.next();
    const next = frames.next();
    expect(await timers.armed((delayMs) => delayMs > 5_000)).to.equal(45_000);
    timers.advance(45_000);
    await retry();
    expect((await next).value?.id).to.equal("2");
  });

  it("has its whole patience again after it was back, also when it had nothing to say", async () => {
    agent.script = (_request, response) => void stream(response)(1, line(1));
    const frames = follow({ patienceMs: 10_000 });
    await frames.next();
    let connections = 0;
    agent.script = (_request, response) => {
      const send = stream(response);
      connections += 1;
      if (connections < 4) return;
      send(2, line(2));
      response.end();
    };
    const next = frames.next();
    agent.cut();
    for (let cut = 1; cut <= 3; cut += 1) {
      await retry();
      while (connections < cut) await new Promise((resolve) => setImmediate(resolve));
      // A moment later only what arrives then is waited for anew.
      timers.advance(1);
      await timers.armed((delayMs) => delayMs === 45_000);
      timers.advance(5_000);
      agent.cut();
    }
    await retry();
    expect((await next).value?.id).to.equal("2");
  });

  it("takes a host-agent that accepts and never answers for cut off", async () => {
    let connections = 0;
    agent.script = (request, response) => {
      connections += 1;
      if (connections === 2) return;
      stream(response)(connections, line(connections));
      if (connections === 3) response.end();
      else response.write(": \n\n", () => setImmediate(() => request.socket.destroy()));
    };
    const frames = follow();
    await frames.next();
    const next = frames.next();
    await retry();
    while (connections < 2) await new Promise((resolve) => setImmediate(resolve));
    await timers.armed((delayMs) => delayMs === 45_000);
    timers.advance(45_000);
    await retry();
    expect((await next).value?.id).to.equal("3");
  });

  it("is not cut off because its reader takes its time", async () => {
    agent.script = (_request, response) => {
      const send = stream(response);
      for (const n of [1, 2]) send(n, line(n));
      response.end();
    };
    const frames = follow();
    await frames.next();
    timers.advance(3_600_000);
    expect((await frames.next()).value?.id).to.equal("2");
    expect((await frames.next()).done).to.equal(true);
    expect(agent.heard).to.have.length(1);
  });

  it("fails at once with what the host refuses it for", async () => {
    for (const [status, code] of [
      [404, "unknown-job"],
      [503, "too-many-streams"],
    ] as const) {
      agent.script = (_request, response) => json(response, { code, message: "no" }, status);
      expect(await failureOf(follow())).to.include({ code, status });
    }
    agent.script = (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end("data: no JSON\n\n");
    };
    expect((await failureOf(follow())).code).to.equal("bad-answer");
  });

  it("closes its connection when the loop is left, and when its signal says so", async () => {
    agent.script = (_request, response) => void stream(response)(1, line(1));
    for await (const _ of follow()) break;
    const abort = new AbortController();
    const frames = follow({ signal: abort.signal });
    await frames.next();
    const aborted = failureOf(frames);
    abort.abort();
    expect((await aborted).code).to.equal("aborted");
    while (agent.sockets.size > 0) await new Promise((resolve) => setImmediate(resolve));
    expect(timers.delaysMs).to.deep.equal([]);
  });

  describe("of a job", () => {
    const view = (status: JobView["status"], progress?: number): JobView => ({
      job_id: "j_a4f7b2",
      kind: "system-update",
      status,
      ...(progress !== undefined && { progress }),
    });
    let job: Job;
    let now: JobView;
    let log: ServerResponse | undefined;

    beforeEach(async () => {
      now = view("running");
      agent.script = (request, response) => {
        if (request.url?.endsWith("/log")) {
          log = response;
          stream(response);
        } else json(response, now, request.method === "POST" ? 202 : 200);
      };
      job = await agent.client.start("systemUpdate", {}, { idempotencyKey: "update:1" });
    });

    it("tells its end, without asking while it runs", async () => {
      const ended = job.ended();
      while (log === undefined) await new Promise((resolve) => setImmediate(resolve));
      const asked = agent.heard.length;
      timers.advance(30_000);
      expect(agent.heard).to.have.length(asked);
      now = view("completed");
      log.end();
      expect((await ended).status).to.equal("completed");
    });

    it("is asked once a second for its progress by who wants to see it", async () => {
      const seen: unknown[] = [];
      const ended = job.ended({
        onProgress: ({ status, progress }) => seen.push([status, progress]),
      });
      for (const next of [view("running", 0.5), view("running", 0.5), view("failed", 0.5)]) {
        await timers.armed((delayMs) => delayMs === 1_000);
        now = next;
        timers.advance(1_000);
      }
      expect((await ended).status).to.equal("failed");
      expect(seen).to.deep.equal([
        ["running", undefined],
        ["running", 0.5],
        ["failed", 0.5],
      ]);
    });

    it("is asked for when no stream is to be had", async () => {
      agent.script = (request, response) =>
        request.url?.endsWith("/log")
          ? json(response, { code: "too-many-streams", message: "full" }, 503)
          : json(response, now);
      const ended = job.ended();
      await timers.armed((delayMs) => delayMs === 1_000);
      now = { ...view("stalled"), finished_at: "2026-12-01T00:00:00Z" };
      timers.advance(1_000);
      expect((await ended).status).to.equal("stalled");
    });

    it("that is stalled and being stopped has not ended yet", async () => {
      now = view("stalled");
      const seen: string[] = [];
      const ended = job.ended({ onProgress: ({ status }) => seen.push(status) });
      await timers.armed((delayMs) => delayMs === 1_000);
      now = view("completed");
      timers.advance(1_000);
      expect((await ended).status).to.equal("completed");
      expect(seen).to.deep.equal(["stalled", "completed"]);
    });

    it("is awaited over a restart of the host-agent, and asked once a second while that is away", async () => {
      const ended = job.ended();
      while (log === undefined) await new Promise((resolve) => setImmediate(resolve));
      // It ends its streams before it goes, and the job goes on for all that is known.
      const away = agent.unlisten();
      log.end();
      await away;
      for (let second = 0; second < 3; second += 1) {
        await timers.armed((delayMs) => delayMs > 0 && delayMs <= 1_000);
        timers.advance(1_000);
      }
      await timers.armed((delayMs) => delayMs > 0 && delayMs <= 1_000);
      await agent.listen();
      now = view("outcome_unknown");
      timers.advance(1_000);
      expect((await ended).status).to.equal("outcome_unknown");
    });

    it("is no longer awaited when the host-agent stays away", async () => {
      await agent.unlisten();
      const failed = job.ended({ patienceMs: 2_000 }).catch((failure: unknown) => failure);
      for (let second = 0; second < 2; second += 1) {
        await timers.armed((delayMs) => delayMs === 1_000);
        timers.advance(1_000);
      }
      expect(await failed).to.include({ code: "unreachable" });
    });

    it("whose log ends before it does is asked for at leisure", async () => {
      agent.script = (request, response) => {
        if (request.url?.endsWith("/log")) stream(response) && response.end();
        else json(response, now);
      };
      const asked = agent.heard.length;
      const ended = job.ended();
      await timers.armed((delayMs) => delayMs === 1_000);
      // The job, its log, the job again; nothing more before the second is over.
      expect(agent.heard.length - asked).to.equal(3);
      now = view("completed");
      timers.advance(1_000);
      expect((await ended).status).to.equal("completed");
    });

    it("is cancelled by its id", async () => {
      await job.cancel();
      expect(agent.heard.at(-1)).to.include({ method: "POST", url: "/v1/jobs/j_a4f7b2/cancel" });
    });
  });
});
