/** Proves the calls of the host-agent's client: what it sends, and what each failure says. */
import { chmodSync } from "node:fs";
import { Readable } from "node:stream";
import { expect } from "chai";
import { HostAgentCallError } from "../../../client/host-agent/index.ts";
import { ALL_ROUTES } from "../../../protocol/host-agent/routes.ts";
import { asOrdinaryUser } from "../../support/file-places.ts";
import { json, ScriptedHostAgent } from "../../support/scripted-host-agent.ts";

describe("a call to the host-agent", () => {
  let agent: ScriptedHostAgent;

  beforeEach(async () => {
    agent = await ScriptedHostAgent.open();
  });
  afterEach(() => agent.close());

  async function failed(work: () => Promise<unknown>): Promise<HostAgentCallError> {
    const failure = await work().then(
      () => null,
      (error: unknown) => error,
    );
    if (!(failure instanceof HostAgentCallError))
      throw new Error(`no failure of a call: ${failure}`);
    return failure;
  }

  it("sends path, query, body and key as the declarations have them", async () => {
    await agent.client.call("userHome", { params: { username: "a/b c" } });
    await agent.client.call("setTimezone", { body: { zone: "Etc/UTC" } });
    await agent.client.call("systemUpdate", { body: {}, idempotencyKey: "k:1" });
    await agent.client.upload({ user: "alex", root: "home", path: "a&b" }, Buffer.from("bytes"));
    expect(
      agent.heard.map(({ method, url, body, headers }) => [
        method,
        url,
        body,
        headers["idempotency-key"],
      ]),
    ).to.deep.equal([
      ["GET", "/v1/users/a%2Fb%20c/home", "", undefined],
      ["POST", "/v1/system/set-timezone", '{"zone":"Etc/UTC"}', undefined],
      ["POST", "/v1/jobs/system-update", "{}", "k:1"],
      ["PUT", "/v1/files/content?user=alex&root=home&path=a%26b", "bytes", undefined],
    ]);
  });

  it("takes an empty body for {} where nothing is answered but success", async () => {
    agent.script = (_request, response) => response.writeHead(200).end();
    expect(await agent.client.call("releaseAppService", { body: { uid: 2100 } })).to.deep.equal({});
  });

  it("streams a file up and down without holding it", async () => {
    agent.script = (request, response, body) => {
      if (request.method === "PUT") json(response, {});
      else response.writeHead(200).end(body || "x".repeat(100_000));
    };
    const query = { user: "alex", root: "home", path: "f" } as const;
    const pieces = Array.from({ length: 100 }, () => Buffer.alloc(1_000, "y"));
    await agent.client.upload(query, Readable.from(pieces));
    expect(agent.heard[0]?.body).to.equal("y".repeat(100_000));
    let bytes = 0;
    for await (const chunk of await agent.client.download(query)) bytes += chunk.length;
    expect(bytes).to.equal(100_000);
  });

  it("does not take a part of a file for the whole", async () => {
    agent.script = (request, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("x".repeat(10), () => request.socket.destroy());
    };
    const bytes = await agent.client.download({ user: "alex", root: "home", path: "f" });
    const cut = await bytes.toArray().catch((failure: unknown) => failure);
    expect(cut).to.be.an.instanceOf(Error);
  });

  it("sends no more of a file that was refused, and lets go of its source", async () => {
    agent.script = (_request, response) =>
      json(response, { code: "no-space", message: "no space" }, 507);
    agent.answersEarly = true;
    const query = { user: "alex", root: "home", path: "f" } as const;
    let pieces = 0;
    let isClosed = false;
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) {
          pieces += 1;
          yield Buffer.alloc(1_000);
        }
      } finally {
        isClosed = true;
      }
    }
    const refused = await failed(() => agent.client.upload(query, endless()));
    expect(refused).to.include({ code: "no-space", status: 507 });
    while (!isClosed || agent.sockets.size > 0)
      await new Promise((resolve) => setImmediate(resolve));
    expect(pieces).to.be.greaterThan(0);
    // Neither is one left open that nobody ever read.
    await agent.unlisten();
    const unread = Readable.from([Buffer.from("x")]);
    expect((await failed(() => agent.client.upload(query, unread))).code).to.equal("unreachable");
    expect(unread.destroyed).to.equal(true);
  });

  it("whose source of bytes fails replaced nothing", async () => {
    const source = new Readable({ read: () => {} });
    source.push("x");
    const query = { user: "alex", root: "home", path: "f" } as const;
    const failing = failed(() => agent.client.upload(query, source));
    while (agent.sockets.size === 0) await new Promise((resolve) => setImmediate(resolve));
    source.destroy(new Error("the disk is gone"));
    expect(await failing).to.include({
      code: "aborted",
      mutationMayHaveApplied: false,
      retrySafe: true,
    });
  });

  it("keeps a connection for reads, and makes one for each change", async () => {
    for (let n = 0; n < 3; n += 1) await agent.client.call("systemStatus");
    expect(agent.connections).to.equal(1);
    for (let n = 0; n < 3; n += 1) await agent.client.call("setTimezone", { body: { zone: "x" } });
    expect(agent.connections).to.equal(4);
  });

  describe("that fails", () => {
    it("carries the host's code and sentence, and whether something may have been done", async () => {
      const cases: readonly (readonly [number, string, boolean])[] = [
        [400, "bad-request", false],
        [409, "job-running", false],
        [500, "set-timezone-failed", true],
        [501, "unsupported", false],
        [503, "shutting-down", false],
        [504, "timeout", true],
        [507, "no-space", false],
        [500, "a-newer-code", true],
      ];
      for (const [status, code, uncertain] of cases) {
        agent.script = (_request, response) =>
          json(response, { code, message: "a sentence" }, status);
        const change = await failed(() =>
          agent.client.call("setTimezone", { body: { zone: "x" } }),
        );
        expect(change, code).to.include({
          code,
          status,
          answered: true,
          mutationMayHaveApplied: uncertain,
          retrySafe: !uncertain,
        });
        expect(change.message).to.equal(`setTimezone: a sentence (${code})`);
        const read = await failed(() => agent.client.call("systemStatus"));
        expect(read, code).to.include({ mutationMayHaveApplied: false, retrySafe: true });
        const keyed = await failed(() =>
          agent.client.call("systemUpdate", { body: {}, idempotencyKey: "k" }),
        );
        expect(keyed, code).to.include({ mutationMayHaveApplied: uncertain, retrySafe: true });
      }
    });

    it("passes on nothing of an answer that is none of the host-agent's", async () => {
      agent.script = (_request, response) => response.writeHead(502).end("<html>canary</html>");
      const refusal = await failed(() => agent.client.call("systemStatus"));
      expect(refusal).to.include({ code: "bad-answer", status: 502 });
      expect(refusal.message).not.to.include("canary");
      agent.script = (_request, response) => response.writeHead(200).end("canary");
      expect((await failed(() => agent.client.call("systemStatus"))).code).to.equal("bad-answer");
    });

    it("for want of anybody on the socket was not sent", async () => {
      await agent.unlisten();
      const change = await failed(() => agent.client.call("setTimezone", { body: { zone: "x" } }));
      expect(change).to.include({
        code: "unreachable",
        status: null,
        answered: false,
        mutationMayHaveApplied: false,
        retrySafe: true,
      });
    });

    it("for want of the right to open the socket says so, and was not sent", async () => {
      chmodSync(agent.path, 0);
      const change = await failed(() =>
        asOrdinaryUser(() => agent.client.call("setTimezone", { body: { zone: "x" } })),
      );
      expect(change).to.include({ code: "no-access", answered: false, retrySafe: true });
      expect(change.mutationMayHaveApplied).to.equal(false);
      const follow = agent.client.stream("jobLog", { params: { id: "j_a4f7b2" } });
      const stream = await failed(() => asOrdinaryUser(() => follow.next()));
      expect(stream.code).to.equal("no-access");
    });

    it("because the connection ended may have been done, unless it only reads", async () => {
      agent.script = (request) => request.socket.destroy();
      const change = await failed(() => agent.client.call("setTimezone", { body: { zone: "x" } }));
      expect(change).to.include({
        code: "no-answer",
        mutationMayHaveApplied: true,
        retrySafe: false,
      });
      expect(agent.heard).to.have.length(1);
      const read = await failed(() =>
        agent.client.call("filesList", { body: { user: "a", root: "home" } }),
      );
      expect(read).to.include({
        code: "no-answer",
        mutationMayHaveApplied: false,
        retrySafe: true,
      });
      // Once over the connection that was kept, once over a new one.
      expect(agent.heard).to.have.length(3);
    });

    it("in the midst of its answer is no answer", async () => {
      agent.script = (request, response) => {
        response.writeHead(200, { "content-length": "100" });
        response.write("{", () => request.socket.destroy());
      };
      expect((await failed(() => agent.client.call("systemStatus"))).code).to.equal("no-answer");
    });

    it("by its time or its signal says which", async () => {
      agent.script = () => {};
      const late = new AbortController();
      const timed = failed(() => agent.client.call("systemStatus", { signal: late.signal }));
      while (agent.heard.length < 1) await new Promise((resolve) => setImmediate(resolve));
      // As `AbortSignal.timeout` does.
      late.abort(new DOMException("too late", "TimeoutError"));
      expect(await timed).to.include({ code: "timeout" });
      const abort = new AbortController();
      const call = failed(() =>
        agent.client.call("setTimezone", { body: { zone: "x" }, signal: abort.signal }),
      );
      while (agent.heard.length < 2) await new Promise((resolve) => setImmediate(resolve));
      abort.abort();
      expect(await call).to.include({ code: "aborted", mutationMayHaveApplied: true });
      const before = await failed(() =>
        agent.client.call("setTimezone", { body: { zone: "x" }, signal: abort.signal }),
      );
      expect(before).to.include({ code: "aborted", mutationMayHaveApplied: false });
      expect(agent.heard).to.have.length(2);
    });
  });

  it("does not compile without what its route can not do without", () => {
    const never = (): unknown => [
      // @ts-expect-error: whose home?
      agent.client.call("userHome"),
      // @ts-expect-error: which zone?
      agent.client.call("setTimezone", {}),
      // @ts-expect-error: no such role.
      agent.client.call("setRole", { body: { user: "alex", role: "root" } }),
      agent.client.call("wifiScan"),
      // @ts-expect-error: which job's?
      agent.client.stream("jobLog"),
      // @ts-expect-error: whose journal?
      agent.client.stream("journalFollow", {}),
      agent.client.stream("networkEvents"),
      agent.client.stream("networkEvents", {}, { patienceMs: 0 }),
    ];
    expect(never).to.be.a("function");
  });

  it("is offered for every route, each in the way that its declaration says", async () => {
    const streams = ["jobLog", "journalFollow", "networkEvents"];
    const bytes = ["filesDownload", "filesUpload"];
    const jobs = ["systemUpdate", "enrollDrive", "ejectDrive", "reboot", "shutdown"];
    const named = (wanted: (route: (typeof ALL_ROUTES)[number]) => boolean) =>
      ALL_ROUTES.filter(wanted).map(({ name }) => name);
    expect(named(({ stream: kind }) => kind === "sse")).to.have.members(streams);
    expect(named(({ stream: kind, upload }) => kind === "octets" || upload)).to.have.members(bytes);
    expect(named(({ status }) => status === 202)).to.have.members(jobs);
  });
});
