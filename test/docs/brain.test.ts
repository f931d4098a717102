/** Proves the guide for the author of the brain: its programs run, as they stand there, against a fake host-agent. */
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { RoleProcess } from "../support/role-process.ts";
import { tempFolder } from "../support/temp-folder.ts";

const ROOT = join(import.meta.dirname, "../..");

describe("the guide for the author of the brain", () => {
  it("has programs that do what it says, one behind the other", async () => {
    using folder = tempFolder();
    const socket = join(folder.path, "agent.sock");
    const role = new RoleProcess(
      ["host-agent", "--fake", "--fake-job-ms", "300", "--socket", socket],
      {
        home: join(folder.path, "home"),
      },
    );
    try {
      await role.said("ready");
      const program = join(folder.path, "brain.ts");
      writeFileSync(program, programIn(readFileSync(join(ROOT, "docs/brain.md"), "utf8")));
      const { stdout } = await promisify(execFile)(process.execPath, [program], {
        cwd: folder.path,
        env: { PATH: process.env["PATH"], MALMO_AGENT_SOCK: socket },
      });
      const lines = stdout.split("\n");
      expect(lines).to.include.members([
        "malmo 2",
        "/home/alex",
        "unknown-service false",
        "true completed",
        // The first frame behind the first.
        "2",
        "22",
        "in_effect",
        "unknown-service",
        "drift",
        "Asia/Tokyo in_effect",
        "failed auth-failed",
        "failed",
      ]);
      expect(lines.some((line) => line.startsWith("completed {"))).to.equal(true);
    } finally {
      await role.end("SIGTERM");
    }
  });
});

/** All programs of the page as one; what it imports from the package is this checkout's. */
function programIn(page: string): string {
  const blocks = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, text = ""]) => text);
  expect(blocks.length).to.be.greaterThan(5);
  return blocks
    .join("\n")
    .replaceAll(/"lemon\/([a-z-]+)"/g, (_, door: string) => `"${ROOT}/client/${door}/index.ts"`);
}
