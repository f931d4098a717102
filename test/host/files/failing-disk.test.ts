import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { tempFolder } from "../../support/temp-folder.ts";

/** A mount namespace of its own: user namespaces make that an ordinary user's right. */
const NAMESPACE = "exec unshare --user --map-root-user --mount sh -c";
const MAY_MOUNT = `${NAMESPACE} 'mount -t tmpfs lemon-test /tmp'`;
const MOUNTED = `${NAMESPACE} '
  mount -t tmpfs -o size=2m,nr_inodes=60,mode=700 lemon-test "$0" && exec "$1" "$2" "$0"' "$@"`;
const PROGRAM = fileURLToPath(new URL("../../support/small-disk-program.ts", import.meta.url));
describe("a write on a disk that fails", () => {
  /** Null where this account may not mount anything. */
  let results: Record<string, unknown> | null = null;

  before(() => {
    if (spawnSync("sh", ["-c", MAY_MOUNT]).status !== 0) return;
    using folder = tempFolder();
    const program = [folder.path, process.execPath, PROGRAM];
    const { stdout, stderr } = spawnSync("sh", ["-c", MOUNTED, "sh", ...program], {
      encoding: "utf8",
    });
    expect(stderr).to.equal("");
    results = JSON.parse(stdout);
  });

  for (const [what, outcome] of [
    ["a new file", ["no_space", false]],
    ["what it left", [".lemon", "file"]],
    ["an overwrite that fails in the middle", ["no_space", false]],
    ["the file is as it was", true],
    ["a write into what there is", "done"],
    ["an overwrite whose old bytes nobody may read", ["filesystem_outcome_unknown", true]],
    ["with space again", "done"],
    ["parents for which one inode is left", ["no_space", false]],
    ["a file for whose parent one inode is left", ["no_space", false]],
    ["what they left", [".lemon", "file"]],
    ["a parent alone", "done"],
    ["writable when read-only", false],
    ["a read when read-only", "done"],
    ["an overwrite when read-only", ["read_only_filesystem", false]],
    ["a new file when read-only", ["read_only_filesystem", false]],
    ["a directory when read-only", ["read_only_filesystem", false]],
  ] as const) {
    it(`${what}: ${JSON.stringify(outcome)}`, () => {
      if (results !== null) expect(results[what]).to.deep.equal(outcome);
    });
  }
});
