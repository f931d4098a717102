import { join } from "node:path";
import { expect } from "chai";
import { z } from "zod";
import { openRoleLog, RecentLines } from "../../../cli/roles/log.ts";
import { doubledNames } from "../../support/log-lines.ts";
import { refusalOf } from "../../support/refusal.ts";
import { RoleStage, recordedServer } from "../../support/role-stage.ts";

const QUIET = { LEMON_LOG_LEVEL: "silent" };

describe("the log of a role", () => {
  it("has the level that was chosen; else a terminal sees warnings and a collector more", () => {
    expect(openRoleLog(QUIET, { isTTY: true })).to.include({
      level: "silent",
      levelIsChosen: true,
    });
    expect(openRoleLog({}, { isTTY: true })).to.include({ level: "warn", levelIsChosen: false });
    expect(openRoleLog({ LEMON_LOG_LEVEL: " " }, {})).to.include({ level: "info" });
  });

  it("keeps the latest thousand lines, and none that is longer than 4 KiB", () => {
    const recent = new RecentLines();
    for (let n = 1; n <= 999; n += 1) recent.push(`${n}`);
    recent.push("x".repeat(4_096));
    recent.push("x".repeat(4_097));
    expect([recent.latest().length, recent.latest()[0]]).to.deep.equal([1_000, "1"]);
    for (let n = 1; n <= 3_500; n += 1) {
      recent.push(`${n}`);
      expect([recent.latest().length, recent.latest().at(-1)]).to.deep.equal([1_000, `${n}`]);
    }
  });

  it("is refused a level that there is not", async () => {
    const refused = await refusalOf(async () => openRoleLog({ LEMON_LOG_LEVEL: "loud" }, {}));
    expect(refused.message).to.equal(
      "LEMON_LOG_LEVEL must be one of trace, debug, info, warn, error, fatal, silent",
    );
  });

  it("takes another level while it runs, also for loggers that were made before", () => {
    const { log, setLevel } = openRoleLog(QUIET, {});
    const child = log.child({ actor: "/a" });
    setLevel("error");
    expect([log.isLevelEnabled("error"), child.isLevelEnabled("error")]).to.deep.equal([
      true,
      true,
    ]);
    expect([log.isLevelEnabled("warn"), child.isLevelEnabled("warn")]).to.deep.equal([
      false,
      false,
    ]);
    setLevel("silent");
    expect(child.isLevelEnabled("fatal")).to.equal(false);
  });
});

const line = z.looseObject({
  level: z.number(),
  time: z.number(),
  pid: z.number(),
  msg: z.string(),
  serverPid: z.number().optional(),
});

describe("a line of a role's log", () => {
  it("has no name twice, and tells the role's process from its server's", async () => {
    await using stage = new RoleStage();
    const environment = { LEMON_LOG_LEVEL: "trace" };
    const first = await stage.controller("up", { environment });
    await first.role.said("probe");
    const hub = join(first.home, "controller", "hub");
    const server = recordedServer(hub);
    process.kill(server.pid, "SIGKILL");
    const readies = () => first.role.log.match(/"nats-server is ready"/g)?.length ?? 0;
    await first.role.until(() => (readies() > 1 ? true : undefined));
    const leftover = recordedServer(hub);
    await first.role.end("SIGKILL");
    const next = await stage.controller("up", { environment });
    expect(await next.role.end("SIGTERM")).to.equal(0);

    for (const { role } of [first, next]) {
      const texts = role.log.split("\n").filter((text) => text.startsWith("{"));
      for (const text of texts) {
        expect(doubledNames(text), text).to.deep.equal([]);
        expect(line.parse(JSON.parse(text)).pid).to.equal(role.child.pid);
      }
    }
    const of = (log: string, message: string) =>
      log.split("\n").find((text) => text.includes(message)) ?? "";
    const said = (log: string, message: string) => line.parse(JSON.parse(of(log, message)));
    expect(said(first.role.log, '"nats-server ended"').serverPid).to.equal(server.pid);
    expect(said(next.role.log, "outlived its owner").serverPid).to.equal(leftover.pid);
  });

  it("is found out when it has a name twice, and not for what lies deeper or in a text", () => {
    expect(doubledNames('{"pid":1,"a":{"pid":2},"b":["pid"],"c":"\\"pid\\":"}')).to.deep.equal([]);
    expect(doubledNames('{"pid":1,"a":{},"pid":2}')).to.deep.equal(['"pid"']);
  });
});
