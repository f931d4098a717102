/**
 * Plays the existing terminal and web clients word for word, as control-plane-wire.md 7.1 and 7.2 have them:
 * they must work against this control plane without a change. (The browser node has a test of its own.)
 */
import { once } from "node:events";
import { expect } from "chai";
import { WebSocket } from "ws";
import { RoleStage, type StartedController } from "../../support/role-stage.ts";
import { type Frame, RawClient, upgradeRequest } from "../../support/ws-client.ts";

const WEB_ORIGIN = "http://localhost:4080";
type Payload = ReturnType<typeof Object>;

/** A socket as those clients drive it: answers by id, `hello-ok` and events by their type. */
class OldSocket {
  readonly socket: WebSocket;
  readonly events: Frame[] = [];
  readonly #answers = new Map<string, (frame: Frame) => void>();
  #hello: (frame: Frame) => void = () => {};
  #heard: () => void = () => {};
  #nextId = 1;

  constructor(url: string, headers: Readonly<Record<string, string>> = {}) {
    this.socket = new WebSocket(url, { headers });
    this.socket.on("message", (data) => {
      const frame: Frame = JSON.parse(String(data));
      if (frame["type"] === "hello-ok") this.#hello(frame);
      else if (frame["type"] === "event") this.#told(frame);
      else this.#answers.get(String(frame.id))?.(frame);
    });
  }

  /** `hello-ok`, or the `res` that refuses it. */
  async connect(params: object): Promise<Frame> {
    await once(this.socket, "open");
    const hello = new Promise<Frame>((resolve) => {
      this.#hello = resolve;
    });
    return await Promise.race([hello, this.request("connect", params)]);
  }

  request(method: string, params: object): Promise<Frame> {
    const id = `req-${this.#nextId}`;
    this.#nextId += 1;
    this.socket.send(JSON.stringify({ type: "req", id, method, params }));
    return new Promise((resolve) => this.#answers.set(id, resolve));
  }

  /** The first event of this name, also one that came already. */
  async event(name: string): Promise<Frame> {
    for (;;) {
      const found = this.events.find(({ event }) => event === name);
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
    }
  }

  async close(code?: number, reason?: string): Promise<void> {
    this.socket.close(code, reason);
    await once(this.socket, "close");
  }

  #told(frame: Frame): void {
    this.events.push(frame);
    this.#heard();
  }
}

describe("clients of old", () => {
  let stage: RoleStage;
  let controller: StartedController;
  const sockets: OldSocket[] = [];

  before(async () => {
    stage = new RoleStage();
    controller = await stage.controller("start", {
      words: ["--allowed-origin", WEB_ORIGIN],
      environment: { LEMON_CONTROL_PLANE_ALLOW_UNAUTHENTICATED_LOOPBACK: "1" },
    });
  });
  after(() => stage[Symbol.asyncDispose]());
  afterEach(() => {
    for (const { socket } of sockets.splice(0)) socket.terminate();
  });

  const open = (query = "", headers = {}): OldSocket => {
    const socket = new OldSocket(`${controller.url}${query}`, headers);
    sockets.push(socket);
    return socket;
  };
  const payloadOf = ({ ok, payload, error }: Frame): Payload => {
    expect(ok, JSON.stringify(error)).to.equal(true);
    return payload;
  };

  describe("the terminal client", () => {
    const HELLO = { role: "operator", client: { id: "lemon-tui@host-4711" } };
    const terminal = async (): Promise<{ tui: OldSocket; hello: Payload }> => {
      const tui = open();
      return { tui, hello: await tui.connect(HELLO) };
    };

    it("is let in, and learns what it gates its calls on", async () => {
      const { hello } = await terminal();
      expect(hello.type).to.equal("hello-ok");
      expect(hello.server.version).to.be.a("string");
      expect(hello.features.methods).to.be.an("array").that.includes.members(["health", "status"]);
      expect(hello.policy.tickIntervalMs).to.be.a("number").above(0);
      expect(hello.auth.clientId).to.equal("lemon-tui@host-4711");
      // What it must not try: nothing is advertised that is not real.
      for (const method of ["session.detail", "chat.send", "models.list", "exec.approvals.get"])
        expect(hello.features.methods).to.not.include(method);
    });

    it("is let in also with a token at the top of its params, where nobody reads it", async () => {
      const tui = open();
      const hello = await tui.connect({ ...HELLO, token: "anything" });
      expect(hello["type"]).to.equal("hello-ok");
    });

    it("hears everything without ever having subscribed, and passes over what it does not know", async () => {
      const { tui } = await terminal();
      const other = open();
      await other.connect({});
      const presence: Payload = (await tui.event("presence")).payload;
      expect(presence.count).to.be.at.least(1);
      await other.request("events.ingest", { eventType: "custom_build", payload: { a: 1 } });
      const custom: Payload = (await tui.event("custom")).payload;
      expect(custom).to.include({ type: "custom_build" });
      const seqs = tui.events.map(({ seq }) => seq);
      expect(seqs).to.deep.equal(seqs.map((_, index) => index + 1));
    });

    it("reads the fields of its slash commands: status, health, logs, config", async () => {
      const { tui } = await terminal();
      const status = payloadOf(await tui.request("status", {}));
      expect(status.server).to.include.keys("version", "uptime_ms", "memory_mb", "otp_release");
      expect(status.connections).to.include.keys("active", "operators");
      expect(status.runs).to.include.keys("active", "queued", "completed_today");
      expect(status.channels.connected).to.be.an("array");
      expect(status.skills).to.include.keys("installed", "enabled");
      const health = payloadOf(await tui.request("health", {}));
      expect([health.ok, typeof health.uptime_ms]).to.deep.equal([true, "number"]);
      const { logs } = payloadOf(await tui.request("logs.tail", { limit: 20 }));
      for (const line of logs) expect(line).to.include.keys("timestampMs", "level", "message");
      const set = { key: "routerModel", value: "any" };
      expect(payloadOf(await tui.request("config.set", set))).to.deep.include(set);
      const { key, value } = payloadOf(await tui.request("config.get", { key: "routerModel" }));
      expect({ key, value }).to.deep.equal(set);
      expect(payloadOf(await tui.request("config.get", {}))).to.include({ routerModel: "any" });
    });

    it("leaves as it likes and comes back at once", async () => {
      for (const [code, reason] of [
        [1000, "client closed"],
        [4000, "liveness timeout"],
        [undefined, undefined],
      ] as const) {
        const { tui, hello } = await terminal();
        expect(hello.type).to.equal("hello-ok");
        await tui.close(code, reason);
      }
      const { tui } = await terminal();
      // The ends of those before arrive on lines of their own.
      const active = async () => payloadOf(await tui.request("status", {})).connections.active;
      while ((await active()) > 1);
    });
  });

  it("that are none get a refusal in the envelope of the port, also at the nodes' path", async () => {
    const raw = await RawClient.open(controller.port);
    raw.socket.write(
      upgradeRequest(controller.port, "/leafnode", { "Sec-WebSocket-Version": "8" }),
    );
    const [head = "", body = ""] = (await raw.all()).split("\r\n\r\n");
    expect(head).to.match(/^HTTP\/1\.1 426 /);
    expect(JSON.parse(body).error).to.have.all.keys("code", "message");
    raw.socket.destroy();
  });

  describe("the web client", () => {
    const LOADS = {
      status: {},
      "introspection.snapshot": {
        includeActiveSessions: true,
        sessionLimit: 250,
        activeLimit: 250,
      },
      "agent.directory.list": { includeSessions: true, limit: 250 },
      "sessions.list": { limit: 150 },
      "sessions.active.list": { limit: 250 },
      "runs.active.list": { limit: 200 },
      "runs.recent.list": { limit: 200 },
      "tasks.active.list": {
        limit: 200,
        includeEvents: true,
        includeRecord: true,
        eventLimit: 200,
      },
      "tasks.recent.list": {
        limit: 200,
        includeEvents: true,
        includeRecord: true,
        eventLimit: 200,
      },
      "agents.list": {},
      "channels.status": {},
      "transports.status": {},
      "skills.status": {},
      "cron.status": {},
      "cron.list": {},
    };
    const TOPICS = ["all", "system", "cron", "channels", "presence"];

    const page = async (query = ""): Promise<{ web: OldSocket; hello: Payload }> => {
      const web = open(query, { origin: WEB_ORIGIN });
      return { web, hello: await web.connect({}) };
    };

    it("is let in from the origin that the operator named, subscribes and loads all its lists at once", async () => {
      const { web, hello } = await page();
      expect(hello.type).to.equal("hello-ok");
      const subscribed = payloadOf(await web.request("events.subscribe", { topics: TOPICS }));
      expect(subscribed.topics).to.deep.equal(TOPICS);
      const calls = Object.entries(LOADS).map(async ([method, params]) => {
        const answer = await web.request(method, params);
        const isServed = hello.features.methods.includes(method);
        expect(answer.ok, method).to.equal(isServed);
        // It lists them as not loaded, and goes on.
        if (!isServed) expect(answer.error?.code).to.equal("METHOD_NOT_FOUND");
      });
      await Promise.all(calls);
      const run = payloadOf(await web.request("events.subscribe", { runId: "run_1" }));
      expect(run.topics).to.deep.equal(["run:run_1"]);
    });

    it("finds arrays where it iterates, and nothing but numbers or null where it counts", async () => {
      const { web } = await page();
      const snapshot = payloadOf(
        await web.request("introspection.snapshot", LOADS["introspection.snapshot"]),
      );
      for (const list of ["agents", "sessions", "activeSessions", "channels", "transports"])
        expect(snapshot[list], list).to.be.an("array");
      expect(snapshot.runs).to.deep.equal({ active: null, queued: null, completed_today: null });
      const { server, connections, runs, skills } = payloadOf(await web.request("status", {}));
      for (const count of [server.uptime_ms, connections.active, skills.installed, skills.enabled])
        expect(count).to.be.a("number");
      for (const count of [runs.active, runs.queued, runs.completed_today])
        expect(count).to.satisfy((given: unknown) => given === null || typeof given === "number");
      const presence: Payload = (await web.event("presence")).payload;
      expect(presence.count).to.be.a("number");
    });

    it("is refused by an answer to its connect when its token is wrong, and keeps its socket", async () => {
      const web = open("?token=wrong", { origin: WEB_ORIGIN });
      const refused = await web.connect({ auth: { token: "wrong" } });
      expect([refused["type"], refused.ok, refused.error?.code]).to.deep.equal([
        "res",
        false,
        "UNAUTHORIZED",
      ]);
      expect(web.socket.readyState).to.equal(WebSocket.OPEN);
    });

    it("needs a token when it comes from any other page of this machine", async () => {
      const web = open("", { origin: "http://localhost:4081" });
      expect((await web.connect({})).error?.code).to.equal("UNAUTHORIZED");
    });
  });
});
