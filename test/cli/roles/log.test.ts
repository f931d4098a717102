import { expect } from "chai";
import { openRoleLog, RecentLines } from "../../../cli/roles/log.ts";
import { refusalOf } from "../../support/refusal.ts";

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
