import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { FileOperations } from "../../../host/files/operations.ts";
import { asOrdinaryUser, ordinaryUser, treeOf } from "../../support/file-places.ts";
import { type FilesRoom, filesRoom, waysToOpen } from "../../support/files-room.ts";
import { refusalOf } from "../../support/refusal.ts";

for (const { name, openAt } of waysToOpen())
  describe(`moving and deleting by path (${name})`, () => {
    let room: FilesRoom;
    let files: FileOperations;
    let home: string;
    let outside: ReadonlyMap<string, string>;

    beforeEach(() => {
      room = filesRoom(openAt);
      ({ files, home } = room);
      mkdirSync(join(home, "a/sub"), { recursive: true });
      mkdirSync(join(home, "b"));
      writeFileSync(join(home, "a/file"), "content");
      symlinkSync("a", join(home, "to-a"));
      symlinkSync("a/file", join(home, "to-file"));
      symlinkSync("b/dangling", join(home, "to-nothing"));
      symlinkSync("../outside", join(home, "to-outside"));
      symlinkSync("../second", join(home, "to-second"));
      outside = treeOf(join(room.top, "outside"));
    });
    afterEach(() => {
      expect(treeOf(join(room.top, "outside"))).to.deep.equal(outside);
      expect(readFileSync(join(home, ".lemon/key"), "utf8")).to.equal("key");
      room[Symbol.dispose]();
    });

    const move = (path: string, destination: string, overwrite = false) => {
      const { mtimeMs } = files.stat({ path });
      return files.move({ path, destination, expectedModifiedAtMs: mtimeMs, overwrite });
    };
    const remove = (path: string, recursive = false) => {
      const { candidates } = files.preview({ path, recursive });
      return files.delete({ path, candidates });
    };
    const codeOf = async (act: () => unknown) => (await refusalOf(act)).code;

    it("moves what a link names, and says both canonical paths", () => {
      expect(move("to-file", "to-second/moved")).to.deep.equal({
        path: join(home, "a/file"),
        destination: join(room.top, "second/moved"),
      });
      expect(readFileSync(join(room.top, "second/moved"), "utf8")).to.equal("content");
      expect(existsSync(join(home, "a/file"))).to.equal(false);
    });

    it("moves to where a dangling link leads", () => {
      expect(move("a/file", "to-nothing").destination).to.equal(join(home, "b/dangling"));
    });

    it("knows a file by all its aliases", async () => {
      for (const overwrite of [false, true]) {
        expect(await codeOf(() => move("a/file", "to-file", overwrite))).to.equal("already_exists");
        expect(await codeOf(() => move("a/file", "to-a/file", overwrite))).to.equal(
          "already_exists",
        );
      }
      expect(await codeOf(() => move("a", "to-a/sub/x"))).to.equal("invalid_path");
    });

    it("refuses roots, the state folder and all that would take them along", async () => {
      for (const path of [home, join(room.top, "second"), "to-second"]) {
        expect(await codeOf(() => move(path, join(home, "b/x")))).to.equal("path_not_allowed");
        expect(await codeOf(() => remove(path, true))).to.equal("path_not_allowed");
        expect(await codeOf(() => move("a/file", path))).to.equal("already_exists");
        expect(await codeOf(() => move("a/file", path, true))).to.equal("is_directory");
      }
      for (const path of [".lemon", ".lemon/key"]) {
        const request = { destination: "b/x", expectedModifiedAtMs: 1, overwrite: false };
        expect(await codeOf(() => files.move({ path, ...request }))).to.equal("path_not_allowed");
        expect(await codeOf(() => files.preview({ path, recursive: true }))).to.equal(
          "path_not_allowed",
        );
        expect(await codeOf(() => move("a/file", `${path}/x`, true))).to.equal("path_not_allowed");
      }
    });

    it("refuses what lies outside, as source and as destination", async () => {
      for (const path of [
        "to-outside/secret",
        "to-outside/new",
        join(room.top, "outside/secret"),
      ]) {
        const request = { path, destination: "b/x", expectedModifiedAtMs: 1, overwrite: true };
        expect(await codeOf(() => files.move(request))).to.equal("path_not_allowed");
        expect(await codeOf(() => move("a/file", path, true))).to.equal("path_not_allowed");
        expect(await codeOf(() => files.preview({ path, recursive: true }))).to.equal(
          "path_not_allowed",
        );
      }
    });

    it("demands that the destination's directory is there, and a directory for a trailing slash", async () => {
      expect(await codeOf(() => move("a/file", "b/none/x"))).to.equal("not_found");
      expect(await codeOf(() => move("a/file", "a/file/x"))).to.equal("not_directory");
      expect(await codeOf(() => move("a/file", "b/x/"))).to.equal("not_directory");
      expect(move("a/sub", "b/x/").destination).to.equal(join(home, "b/x"));
    });

    it("holds a caller to the revision that it was told, not to its millisecond alone", async () => {
      const { mtimeMs } = files.stat({ path: "a/file" });
      // The change time alone tells.
      linkSync(join(home, "a/file"), join(home, "b/link"));
      rmSync(join(home, "b/link"));
      const request = { path: "a/file", destination: "b/x", overwrite: false };
      expect(
        await codeOf(() => files.move({ ...request, expectedModifiedAtMs: mtimeMs })),
      ).to.equal("revision_conflict");
      expect(
        await codeOf(() => files.move({ ...request, expectedModifiedAtMs: mtimeMs + 1 })),
      ).to.equal("revision_conflict");
      move("a/file", "b/x");
    });

    for (const time of ["@0", "@-1", "1901-12-14", "2262-04-12", "2400-01-01"])
      it(`moves and deletes what bears the time ${time}`, () => {
        execFileSync("touch", ["-d", time, join(home, "a/file")]);
        expect(move("a/file", "b/moved").destination).to.equal(join(home, "b/moved"));
        expect(remove("b", true).path).to.equal(join(home, "b"));
        expect(existsSync(join(home, "b"))).to.equal(false);
      });

    it("moves within and out of a directory that may be written and not read, and deletes in it", async () => {
      for (const path of ["a", "b", "a/file"]) chownSync(join(home, path), ordinaryUser(), -1);
      chmodSync(join(home, "a"), 0o300);
      for (const path of [room.top, home]) chmodSync(path, 0o755);
      const { mtimeMs } = files.stat({ path: "a/file" });
      const asUser = (path: string, destination: string) =>
        asOrdinaryUser(() =>
          files.move({ path, destination, expectedModifiedAtMs: mtimeMs, overwrite: false }),
        );
      asUser("a/file", "a/other");
      asUser("a/other", "b/file");
      asUser("b/file", "a/file");
      // Neither it nor its directory can be opened: nothing would say that it is on the disk.
      chmodSync(join(home, "a/file"), 0);
      expect(await codeOf(() => asUser("a/file", "a/other"))).to.equal("permission_denied");
      expect(await codeOf(() => asOrdinaryUser(() => remove("a/file")))).to.equal(
        "permission_denied",
      );
      expect(existsSync(join(home, "a/file"))).to.equal(true);
      expect(readdirSync(join(home, "b"))).to.deep.equal([]);
      chmodSync(join(home, "a/file"), 0o400);
      asOrdinaryUser(() => remove("a/file"));
      expect(existsSync(join(home, "a/file"))).to.equal(false);
      // An ordinary user removes only what it may read.
      chmodSync(join(home, "a"), 0o700);
    });

    it("lets the next write go on with the time that the source had", () => {
      const { mtimeMs } = files.stat({ path: "a/file" });
      writeFileSync(join(home, "b/old"), "old");
      files.stat({ path: "b/old" });
      move("a/file", "b/old", true);
      const bytes = Buffer.from("!");
      const rest = { offset: 7, truncate: true, mkdirs: false, expectedModifiedAtMs: mtimeMs };
      expect(files.write({ path: "b/old", bytes, ...rest }).size).to.equal(8);
    });

    it("previews with the canonical path and the stat, and deletes once", async () => {
      const preview = files.preview({ path: "to-a", recursive: true });
      const { path, ...stat } = files.stat({ path: "a" });
      expect(preview).to.deep.include({
        path,
        stat,
        childCount: 2,
        candidateCount: 3,
      });
      const request = { path: preview.path, candidates: preview.candidates };
      expect(files.delete(request)).to.deep.equal({ path: join(home, "a") });
      expect(existsSync(join(home, "a"))).to.equal(false);
      expect(await codeOf(() => files.delete(request))).to.equal("stale_preview");
    });

    it("removes a link inside a tree and not what it names, and by its own path what it names", () => {
      symlinkSync("../../second", join(home, "a/sub/link"));
      writeFileSync(join(room.top, "second/kept"), "");
      remove("a", true);
      expect(readdirSync(join(room.top, "second"))).to.deep.equal(["kept"]);
      remove("to-second/kept");
      expect(readdirSync(join(room.top, "second"))).to.deep.equal([]);
      expect(existsSync(join(home, "to-second"))).to.equal(true);
    });

    it("calls it stale when the path leads elsewhere by now, or nowhere", async () => {
      for (const change of [
        () => symlinkSync("../../outside", join(home, "a/sub")),
        () => symlinkSync("../b", join(home, "a/sub")),
        () => writeFileSync(join(home, "a/sub"), ""),
        () => {},
      ]) {
        const { path, candidates } = files.preview({ path: "a/sub", recursive: true });
        renameSync(join(home, "a/sub"), join(home, "b/sub"));
        change();
        expect(await codeOf(() => files.delete({ path, candidates }))).to.equal("stale_preview");
        rmSync(join(home, "a/sub"), { force: true });
        renameSync(join(home, "b/sub"), join(home, "a/sub"));
      }
    });

    it("finds nothing where nothing is", async () => {
      expect(await codeOf(() => remove("a/none"))).to.equal("not_found");
      const request = { destination: "b/x", expectedModifiedAtMs: 1, overwrite: false };
      expect(await codeOf(() => files.move({ path: "a/none", ...request }))).to.equal("not_found");
      expect(await codeOf(() => remove("a/file/"))).to.equal("not_directory");
    });
  });
