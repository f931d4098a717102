import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";

const UNIT = join(import.meta.dirname, "../../packaging/systemd/malmo-host-agent.service");

/** The settings of a unit; one that stands more than once has all its values. */
function settings(text: string): ReadonlyMap<string, readonly string[]> {
  const rows = text.split("\n").filter((line) => /^\w+=/.test(line));
  const grouped = Map.groupBy(rows, (row) => row.slice(0, row.indexOf("=")));
  return new Map(
    [...grouped].map(([name, lines]) => [name, lines.map((line) => line.slice(name.length + 1))]),
  );
}

describe("the host-agent's systemd unit", () => {
  let folder: TempFolder;
  before(() => {
    folder = tempFolder();
  });
  after(() => folder[Symbol.dispose]());

  const unit = settings(readFileSync(UNIT, "utf8"));

  it("is what the contract asks for", () => {
    const asked = {
      Type: "notify",
      NotifyAccess: "main",
      LimitNOFILE: "16384",
      Group: "malmo",
      RuntimeDirectory: "malmo",
      RuntimeDirectoryMode: "0750",
      KillMode: "mixed",
      NoNewPrivileges: "yes",
    };
    for (const [name, value] of Object.entries(asked)) {
      expect(unit.get(name), name).to.deep.equal([value]);
    }
    expect(unit.has("WatchdogSec")).to.equal(true);
  });

  it("takes nothing away that the host-agent needs", () => {
    for (const name of [
      "ProtectHome",
      "ProtectSystem",
      "RestrictSUIDSGID",
      "MemoryDenyWriteExecute",
      "PrivateNetwork",
      "PrivateUsers",
      "ProtectHostname",
      "ProtectControlGroups",
    ]) {
      expect(unit.has(name), name).to.equal(false);
    }
  });

  it("is understood by systemd, where that is installed", () => {
    if (spawnSync("systemd-analyze", ["--version"]).error !== undefined) return;
    // What it starts is not installed here.
    const text = readFileSync(UNIT, "utf8").replace(/^ExecStart=\S+/m, "ExecStart=/bin/true");
    const copy = join(folder.path, "malmo-host-agent.service");
    writeFileSync(copy, text);
    const verified = spawnSync("systemd-analyze", ["verify", "--man=no", copy], {
      encoding: "utf8",
    });
    expect(verified.stderr).not.to.include("malmo-host-agent.service");
    expect(verified.status).to.equal(0);
    const security = spawnSync(
      "systemd-analyze",
      ["security", "--offline=yes", "--threshold=65", copy],
      { encoding: "utf8" },
    );
    expect(security.status, security.stdout + security.stderr).to.equal(0);
  });
});
