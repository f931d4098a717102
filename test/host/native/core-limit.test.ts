/** Proves that a process which forbids cores leaves none, and takes nobody the right to ask for one. */
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { tempFolder } from "../../support/temp-folder.ts";

const MODULE = join(import.meta.dirname, "../../../host/native/core-limit.ts");

describe("forbidden cores", () => {
  const limits = (script: string): readonly string[] =>
    execFileSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" })
      .trim()
      .split(/\s+/);
  const SHOW = `(await import("node:child_process")).execFileSync("/bin/sh", ["-c", "ulimit -Sc; ulimit -Hc"], { stdio: "inherit" });`;

  it("are forbidden to what is started, too, and the hard limit stays as it was", () => {
    const [, before] = limits(SHOW);
    const forbid = `const { forbidCores } = await import(${JSON.stringify(MODULE)}); forbidCores(); forbidCores();`;
    expect(limits(`${forbid} ${SHOW}`)).to.deep.equal(["0", before]);
  });

  it("leave nothing where the process was when it is killed by a signal that else leaves one", () => {
    using folder = tempFolder();
    const script = `const { forbidCores } = await import(${JSON.stringify(MODULE)}); forbidCores(); process.kill(process.pid, "SIGABRT"); setInterval(() => {}, 1_000);`;
    const flags = ["--input-type=module", "-e", script];
    const { signal } = spawnSync(process.execPath, flags, { cwd: folder.path });
    expect(signal).to.equal("SIGABRT");
    expect(readdirSync(folder.path)).to.deep.equal([]);
  });
});
