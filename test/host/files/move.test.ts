import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Anchors } from "../../../host/files/anchors.ts";
import { moveEntry } from "../../../host/files/move.ts";
import { openDirectory } from "../../../host/native/directory.ts";
import { openFiles } from "../../support/descriptors.ts";
import {
  asOrdinaryUser,
  atPlace,
  modifiedAt,
  ordinaryUser,
  treeOf,
} from "../../support/file-places.ts";
import { refusalOf } from "../../support/refusal.ts";
import { smallDisk } from "../../support/small-disk.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

describe("a move", () => {
  let folder: TempFolder;
  let top: string;
  let anchorFds: number[];
  let anchors: Anchors;
  let open: readonly string[];

  beforeEach(() => {
    folder = tempFolder();
    top = folder.path;
    mkdirSync(join(top, "one/tree/deep"), { recursive: true });
    mkdirSync(join(top, "two"));
    mkdirSync(join(top, "holder/inner/root"), { recursive: true });
    writeFileSync(join(top, "one/file"), "content");
    writeFileSync(join(top, "one/tree/deep/leaf"), "leaf");
    open = openFiles();
    anchorFds = [openDirectory(top), openDirectory(join(top, "holder/inner/root"))];
    anchors = new Anchors(anchorFds);
  });
  afterEach(() => {
    for (const fd of anchorFds) closeSync(fd);
    expect(openFiles()).to.deep.equal(open);
    folder[Symbol.dispose]();
  });

  const seen = (path: string) => Math.trunc(Number(lstatSync(path, { bigint: true }).mtimeMs));

  function move(
    from: string,
    to: string,
    { overwrite = false, expectedModifiedAtMs = seen(join(top, from)) } = {},
  ): void {
    atPlace(join(top, from), (source) =>
      atPlace(join(top, to), (target) =>
        moveEntry(
          {
            from: source,
            to: target,
            demandRevision: modifiedAt(expectedModifiedAtMs),
            overwrite,
          },
          anchors,
        ),
      ),
    );
  }

  /** The code it is refused with; the tree is what it was. */
  async function refused(...[from, to, options]: Parameters<typeof move>): Promise<string> {
    const before = treeOf(top);
    const refusal = await refusalOf(() => move(from, to, options));
    expect(refusal.mutationMayHaveApplied).to.equal(false);
    const times = (tree: ReadonlyMap<string, string>) => [...tree.entries()].map(String);
    expect(withoutFolderTimes(times(treeOf(top)))).to.deep.equal(withoutFolderTimes(times(before)));
    return refusal.code;
  }

  /** A capture that was put back leaves the time of its directory behind. */
  const withoutFolderTimes = (lines: readonly string[]) =>
    lines.map((line) => line.replace(/,(4\d{4} \d+) \d+/, ",$1"));

  it("gives a file another name in another directory, with its content and time", () => {
    const file = join(top, "one/file");
    const { ino, mtimeNs } = lstatSync(file, { bigint: true });
    move("one/file", "two/moved");
    const moved = lstatSync(join(top, "two/moved"), { bigint: true });
    expect({ ino: moved.ino, mtimeNs: moved.mtimeNs }).to.deep.equal({ ino, mtimeNs });
    expect(readFileSync(join(top, "two/moved"), "utf8")).to.equal("content");
    expect(readdirSync(join(top, "one"))).to.deep.equal(["tree"]);
  });

  it("moves a directory with all below it", () => {
    move("one/tree", "two/tree");
    expect(readFileSync(join(top, "two/tree/deep/leaf"), "utf8")).to.equal("leaf");
    expect(readdirSync(join(top, "one"))).to.deep.equal(["file"]);
  });

  it("moves a FIFO without waiting for its other end", () => {
    execFileSync("mkfifo", [join(top, "one/fifo")]);
    move("one/fifo", "two/fifo");
    expect(lstatSync(join(top, "two/fifo")).isFIFO()).to.equal(true);
  });

  it("moves nothing that the caller saw otherwise", async () => {
    const modifiedAtMs = seen(join(top, "one/file"));
    for (const expectedModifiedAtMs of [modifiedAtMs - 1, modifiedAtMs + 1])
      expect(await refused("one/file", "two/x", { expectedModifiedAtMs })).to.equal(
        "revision_conflict",
      );
    move("one/file", "two/x", { expectedModifiedAtMs: modifiedAtMs });
  });

  it("moves nothing that takes the source's place once it was looked at, and puts that back", async () => {
    const file = join(top, "one/file");
    const refusal = await refusalOf(() =>
      atPlace(file, (from) =>
        atPlace(join(top, "two/x"), (to) => {
          const demandRevision = () => {
            renameSync(file, join(top, "two/seen"));
            symlinkSync("../two/seen", file);
          };
          moveEntry({ from, to, demandRevision, overwrite: false }, anchors);
        }),
      ),
    );
    expect(refusal.code).to.equal("revision_conflict");
    expect(refusal.mutationMayHaveApplied).to.equal(false);
    expect(lstatSync(file).isSymbolicLink()).to.equal(true);
    expect(readdirSync(join(top, "two"))).to.deep.equal(["seen"]);
  });

  it("finds no source that is gone", async () => {
    const options = { expectedModifiedAtMs: 1 };
    expect(await refused("one/nothing", "two/x", options)).to.equal("not_found");
  });

  it("refuses a link that came where a file was walked to", async () => {
    symlinkSync("file", join(top, "one/link"));
    expect(await refused("one/link", "two/x")).to.equal("revision_conflict");
  });

  describe("to a name that is taken", () => {
    const TAKEN: Readonly<Record<string, (path: string) => void>> = {
      file: (path) => writeFileSync(path, "old"),
      "empty directory": (path) => mkdirSync(path),
      "full directory": (path) => mkdirSync(join(path, "child"), { recursive: true }),
      link: (path) => symlinkSync("nowhere", path),
      fifo: (path) => void execFileSync("mkfifo", [path]),
    };

    for (const [kind, make] of Object.entries(TAKEN))
      for (const source of ["one/file", "one/tree"])
        it(`replaces no ${kind} with ${source} unasked`, async () => {
          make(join(top, "two/taken"));
          expect(await refused(source, "two/taken")).to.equal("already_exists");
        });

    it("replaces a file when asked to", () => {
      TAKEN["file"]?.(join(top, "two/taken"));
      move("one/file", "two/taken", { overwrite: true });
      expect(readFileSync(join(top, "two/taken"), "utf8")).to.equal("content");
      expect(existsSync(join(top, "one/file"))).to.equal(false);
    });

    it("replaces a link and not what it names, when asked to", () => {
      writeFileSync(join(top, "two/named"), "untouched");
      symlinkSync("named", join(top, "two/taken"));
      move("one/file", "two/taken", { overwrite: true });
      expect(lstatSync(join(top, "two/taken")).isFile()).to.equal(true);
      expect(readFileSync(join(top, "two/named"), "utf8")).to.equal("untouched");
    });

    for (const [source, kind, code] of [
      ["one/file", "empty directory", "is_directory"],
      ["one/file", "full directory", "is_directory"],
      ["one/file", "fifo", "not_regular"],
      ["one/tree", "file", "not_directory"],
      ["one/tree", "link", "not_directory"],
      ["one/tree", "fifo", "not_directory"],
      ["one/tree", "empty directory", "is_directory"],
      ["one/tree", "full directory", "is_directory"],
    ] as const)
      it(`replaces no ${kind} with ${source} even when asked to`, async () => {
        TAKEN[kind]?.(join(top, "two/taken"));
        expect(await refused(source, "two/taken", { overwrite: true })).to.equal(code);
      });

    it("needs no asking for a name that is free", () => {
      move("one/file", "two/free", { overwrite: true });
      expect(readFileSync(join(top, "two/free"), "utf8")).to.equal("content");
    });
  });

  for (const overwrite of [false, true]) {
    const asked = overwrite ? "overwriting" : "not overwriting";
    it(`does not move a file onto itself, ${asked}`, async () => {
      expect(await refused("one/file", "one/file", { overwrite })).to.equal("already_exists");
      expect(await refused("one/tree", "one/tree", { overwrite })).to.equal("already_exists");
    });

    it(`does not move a file onto another name of it, ${asked}`, async () => {
      linkSync(join(top, "one/file"), join(top, "two/alias"));
      expect(await refused("one/file", "two/alias", { overwrite })).to.equal("already_exists");
      expect(lstatSync(join(top, "one/file")).nlink).to.equal(2);
    });

    it(`does not move a directory into itself, ${asked}`, async () => {
      for (const target of ["one/tree/x", "one/tree/deep/x"])
        expect(await refused("one/tree", target, { overwrite })).to.equal("invalid_path");
    });
  }

  it("moves neither a root nor what holds one", async () => {
    for (const path of ["holder/inner/root", "holder/inner", "holder"])
      expect(await refused(path, "two/x")).to.equal("path_not_allowed");
    mkdirSync(join(top, "holder/inner/beside"));
    move("holder/inner/beside", "two/beside");
  });

  it("knows a root by its inode when it has another name", async () => {
    renameSync(join(top, "holder/inner"), join(top, "renamed"));
    expect(await refused("renamed", "two/x")).to.equal("path_not_allowed");
    move("holder", "two/holder");
  });

  it("does not copy to another file system", async () => {
    await using disk = await smallDisk(1_048_576);
    if (disk === null) return;
    const target = join(disk.path, "x");
    for (const source of ["one/file", "one/tree"]) {
      const refusal = await refusalOf(() =>
        atPlace(join(top, source), (from) =>
          atPlace(target, (to) => {
            const demandRevision = modifiedAt(seen(join(top, source)));
            moveEntry({ from, to, demandRevision, overwrite: false }, anchors);
          }),
        ),
      );
      expect(refusal.code).to.equal("cross_device");
    }
    expect(readdirSync(join(top, "one")).sort()).to.deep.equal(["file", "tree"]);
    expect(existsSync(target)).to.equal(false);
  });

  it("tells what an account may not change, and leaves it", async () => {
    chownSync(top, ordinaryUser(), -1);
    for (const path of ["one", "two", "one/tree", "one/file"])
      chownSync(join(top, path), ordinaryUser(), -1);
    for (const unwritable of ["one", "two"]) {
      chmodSync(join(top, unwritable), 0o555);
      for (const source of ["one/file", "one/tree"]) {
        const refusal = await refusalOf(() => asOrdinaryUser(() => move(source, "two/x")));
        expect(refusal.code).to.equal("permission_denied");
        expect(refusal.mutationMayHaveApplied).to.equal(false);
      }
      chmodSync(join(top, unwritable), 0o755);
    }
    expect(readdirSync(join(top, "one")).sort()).to.deep.equal(["file", "tree"]);
    asOrdinaryUser(() => move("one/file", "two/x"));
  });

  it("keeps names that are no UTF-8 and of 255 bytes apart", () => {
    const wild = Buffer.concat([Buffer.of(0xff, 0x0a), Buffer.alloc(253, 0x61)]);
    atPlace(join(top, "one/file"), (from) =>
      atPlace(join(top, "two/x"), (to) => {
        const demandRevision = modifiedAt(seen(join(top, "one/file")));
        const wildly = { ...to, name: wild };
        moveEntry({ from, to: wildly, demandRevision, overwrite: false }, anchors);
      }),
    );
    const [name] = readdirSync(join(top, "two"), { encoding: "buffer" });
    expect(name).to.deep.equal(wild);
  });
});
