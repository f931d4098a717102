import { expect } from "chai";
import pino from "pino";
import { insightMethods } from "../../../actors/control-plane/insight-methods.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type TestGateway, testGateway } from "../../support/gateway.ts";
import { WsClient } from "../../support/ws-client.ts";

describe("what can be seen of a control plane", () => {
  const clock = new FakeClock();
  let lines: string[];
  let gateway: TestGateway;
  let client: WsClient;

  beforeEach(async () => {
    lines = [];
    gateway = await testGateway({ handlers: insightMethods({ clock, recentLines: () => lines }) });
    client = await WsClient.connect(gateway.url);
  });
  afterEach(() => gateway.close());

  const tail = async (params: object = {}) =>
    Object((await client.call("logs.tail", params)).payload);
  const messages = async (params: object) =>
    (await tail(params)).logs.map(({ message }: { message: string }) => message);

  it("is the latest of its log, oldest first, with what the lines say beside their text", async () => {
    const log = pino({ level: "trace", base: { pid: 7 } }, { write: (line) => lines.push(line) });
    log.info({ actor: "/lemon/nodes" }, "one");
    log.error({ code: "unavailable", token: "s3cr3t" }, "two");
    const { logs, ...rest } = await tail();
    expect(rest).to.deep.equal({
      total: 2,
      filters: { limit: 100, level: null },
      summary: { count: 2, limit: 100, level: null, levelCounts: { info: 1, error: 1 } },
    });
    expect(logs[0]).to.deep.include({
      pid: 7,
      actor: "/lemon/nodes",
      level: "info",
      message: "one",
    });
    expect(logs[1]).to.deep.include({ code: "unavailable", level: "error", message: "two" });
    expect(JSON.stringify(logs)).not.to.contain("s3cr3t");
  });

  it("is bounded, whatever is asked for", async () => {
    const log = pino({ base: null }, { write: (line) => lines.push(line) });
    for (let n = 1; n <= 1_200; n += 1) log.info(`${n}`);
    for (const [params, first, count] of [
      [{}, "1101", 100],
      [{ limit: 3 }, "1198", 3],
      [{ lines: 3 }, "1198", 3],
      [{ limit: 0 }, "1200", 1],
      [{ limit: -5 }, "1200", 1],
      [{ limit: 1_000 }, "201", 1_000],
      [{ limit: 1_001 }, "201", 1_000],
    ] as const) {
      const found = await messages(params);
      expect([found[0], found.length]).to.deep.equal([first, count]);
    }
  });

  it("is of a level and above, by its name", async () => {
    const log = pino({ level: "trace", base: null }, { write: (line) => lines.push(line) });
    for (const level of ["trace", "debug", "info", "warn", "error", "fatal"] as const) {
      log[level](level);
    }
    expect(await messages({ level: "warn" })).to.deep.equal(["warn", "error", "fatal"]);
    expect(await messages({ filter: "ERROR" })).to.deep.equal(["error", "fatal"]);
    expect(await messages({ level: "all" })).to.have.length(6);
    expect(await messages({ level: "Warning" })).to.deep.equal(["warn", "error", "fatal"]);
  });

  it("is of every level when what was named is none, and says so", async () => {
    const log = pino({ level: "trace", base: null }, { write: (line) => lines.push(line) });
    log.trace("low");
    log.fatal("high");
    for (const level of ["loud", "silent", "", "constructor"]) {
      const { logs, filters } = await tail({ level });
      expect([logs.length, filters.level], level).to.deep.equal([2, null]);
    }
    expect((await tail({ level: "fatal" })).filters.level).to.equal("fatal");
  });

  it("passes over what is no line of the log", async () => {
    lines.push("not json", "null", "[]", '{"level":30}', '{"level":30,"time":1}');
    expect(await messages({})).to.deep.equal([""]);
  });

  it("is a snapshot whose parts say that they are not there, and null for counts that nobody knows", async () => {
    const { payload } = await client.call("introspection.snapshot", {
      includeActiveSessions: true,
      includeChannels: false,
      sessionLimit: 250,
      activeLimit: 250,
    });
    const snapshot = Object(payload);
    expect(snapshot.generatedAtMs).to.equal(clock.nowMs());
    expect(snapshot.includes).to.deep.equal({
      agents: true,
      sessions: true,
      activeSessions: true,
      channels: false,
      transports: true,
    });
    expect(snapshot.errors).to.deep.equal(
      ["agents", "sessions", "activeSessions", "transports"].map((section) => ({
        section,
        code: "unavailable",
      })),
    );
    expect(snapshot.runs).to.deep.equal({ active: null, queued: null, completed_today: null });
    expect(new Set(Object.values(snapshot.counts))).to.deep.equal(new Set([null]));
  });
});
