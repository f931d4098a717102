import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { tempFolder } from "../../support/temp-folder.ts";

/** A mount namespace of its own: user namespaces make that an ordinary user's right. */
const NAMESPACE = "exec unshare --user --map-root-user --mount";
const PROGRAM = fileURLToPath(new URL("../../support/second-names-program.ts", import.meta.url));
const REFUSED = "path_not_allowed";

describe("a second name of the state folder, or of what is in it", function () {
  this.timeout(30_000);
  /** Null where this account may not mount anything. */
  let results: Record<string, unknown> | null = null;

  before(() => {
    if (spawnSync("sh", ["-c", `${NAMESPACE} true`]).status !== 0) return;
    using folder = tempFolder();
    const program = [process.execPath, PROGRAM, folder.path];
    const { stdout, stderr } = spawnSync("sh", ["-c", `${NAMESPACE} "$@"`, "sh", ...program], {
      encoding: "utf8",
    });
    expect(stderr).to.equal("");
    results = JSON.parse(stdout);
  });

  for (const [what, outcome] of [
    ["a folder", [REFUSED, REFUSED, REFUSED, REFUSED]],
    ["a folder with a space in its name", REFUSED],
    ["the folder above", [REFUSED, "done"]],
    ["a mount in a mount", REFUSED],
    ["a file", [REFUSED, REFUSED]],
    ["another disk", "done"],
    ["a disk that is mounted below it", REFUSED],
    ["a root", REFUSED],
    ["a root below it", REFUSED],
    ["a root of something else", "done"],
    ["a hard link", [REFUSED, REFUSED, REFUSED]],
    ["a hard link to something else", ["done", "regular"]],
    ["what is not in it any more", "done"],
    ["what was written", "key"],
  ] as const) {
    it(`${what}: ${JSON.stringify(outcome)}`, () => {
      if (results !== null) expect(results[what]).to.deep.equal(outcome);
    });
  }
});
