import { spawnSync } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { Capture, withRemains } from "../../../host/files/capture.ts";
import { findLeftovers } from "../../../host/files/leftovers.ts";
import { openDirectory } from "../../../host/native/directory.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const PROGRAM = fileURLToPath(new URL("../../support/file-work.ts", import.meta.url));

describe("a capture", () => {
  let folder: TempFolder;
  let top: string;
  let parent: number;
  const name = Buffer.from("entry");

  beforeEach(() => {
    folder = tempFolder();
    top = folder.path;
    parent = openDirectory(top);
  });
  afterEach(() => {
    closeSync(parent);
    folder[Symbol.dispose]();
  });

  it("takes an entry under a name of its own purpose, and puts it back", () => {
    writeFileSync(join(top, "entry"), "content");
    const capture = Capture.take(parent, name, "delete");
    expect(readdirSync(top)).to.deep.equal([capture.name.toString()]);
    expect(capture.name.toString()).to.match(/^\.lemon-delete-[0-9a-f]{32}$/);
    expect(capture.entry().size).to.equal(7n);
    expect(capture.putBack()).to.equal(true);
    expect(readFileSync(join(top, "entry"), "utf8")).to.equal("content");
  });

  for (const [what, come] of [
    ["a file", (path: string) => writeFileSync(path, "new")],
    ["an empty directory", (path: string) => mkdirSync(path)],
  ] as const)
    it(`replaces nothing when ${what} came under the old name: both stay`, () => {
      mkdirSync(join(top, "entry"));
      const capture = Capture.take(parent, name, "move");
      come(join(top, "entry"));
      expect(capture.putBack()).to.equal(false);
      expect(readdirSync(top).sort()).to.deep.equal([capture.name.toString(), "entry"]);
    });

  it("does nothing when it is gone itself", () => {
    writeFileSync(join(top, "entry"), "");
    const capture = Capture.take(parent, name, "move");
    renameSync(join(top, capture.name.toString()), join(top, "elsewhere"));
    expect(capture.putBack()).to.equal(false);
    expect(readdirSync(top)).to.deep.equal(["elsewhere"]);
  });

  it("has its failure say what it left behind, in numbers and in words", () => {
    const stale = new LemonError("stale_preview");
    const clean = withRemains(stale, { left: 0 });
    expect(clean.mutationMayHaveApplied).to.equal(false);
    expect(clean.message).to.equal(stale.message);
    const left = withRemains(stale, { removed: 2, left: 1 });
    expect(left.code).to.equal("stale_preview");
    expect(left.mutationMayHaveApplied).to.equal(true);
    expect(left.details).to.deep.equal({ removed: 2, leftUnderTemporaryName: 1 });
    expect(left.message).to.include("part of the tree is removed").and.include(".lemon-");
  });

  /** How a delete of `doomed` and a move of `source` end with a system call refused; null where that can not be had. */
  function ending(call: string, errno: string): unknown {
    for (const entry of ["doomed", "source"]) writeFileSync(join(top, entry), "content");
    const { stdout, stderr } = spawnSync(process.execPath, [PROGRAM, top, call, errno], {
      encoding: "utf8",
    });
    expect(stderr).to.equal("");
    return JSON.parse(stdout);
  }

  for (const errno of ["EINVAL", "ENOSYS", "EOPNOTSUPP"])
    it(`moves and deletes nothing where the system answers ${errno} to the rename that replaces nothing`, () => {
      const answer = ending("renameat2", errno);
      if (answer !== null)
        expect(answer).to.deep.equal(new Array<string>(2).fill("atomic_move_unavailable false"));
      expect(readdirSync(top).sort()).to.deep.equal(["doomed", "source"]);
    });

  it("is followed by a sync of the directories: when that fails, the outcome is unknown", () => {
    const answer = ending("fsync", "EIO");
    if (answer === null) return;
    expect(answer).to.deep.equal(new Array<string>(2).fill("filesystem_outcome_unknown true"));
    expect(readdirSync(top)).to.deep.equal(["target"]);
  });

  it("asks nothing more of a file system that can not sync a directory", () => {
    const answer = ending("fsync", "EINVAL");
    if (answer !== null) expect(answer).to.deep.equal(["done", "done"]);
  });

  it("is found by its name after its process was killed in the midst of a delete", async () => {
    mkdirSync(join(top, "doomed/sub"), { recursive: true });
    writeFileSync(join(top, "doomed/sub/file"), "");
    const { stdout, signal } = spawnSync(process.execPath, [PROGRAM, top, "kill"], {
      encoding: "utf8",
    });
    // No such refusal on this kind of machine.
    if (stdout === "null\n") return;
    expect(signal).to.equal("SIGSYS");
    const { paths, complete } = await findLeftovers([top], "/nonexistent");
    expect(complete).to.equal(true);
    expect(paths).to.deep.equal(readdirSync(top).map((entry) => join(top, entry)));
    const [left = ""] = paths;
    expect(left).to.include("/.lemon-delete-");
    // The entry whose removal was cut off, two levels below.
    const [sub = ""] = readdirSync(left);
    expect(sub).to.match(/^\.lemon-delete-/);
    expect(readdirSync(join(left, sub))).to.have.lengthOf(1);
  });
});
