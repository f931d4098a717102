import { execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  fstatSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import { type AllowedRoots, pinRoots } from "../../host/allowed-roots.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import { openFiles } from "../support/descriptors.ts";
import { waysToOpen } from "../support/files-room.ts";
import { refusalOf } from "../support/refusal.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";

for (const { name, openAt } of waysToOpen()) {
  describe(`the allowed roots, walked with ${name}`, () => {
    let folder: TempFolder;
    let top: string;
    let roots: AllowedRoots;
    let open: readonly string[];

    beforeEach(() => {
      folder = tempFolder();
      top = folder.path;
      for (const path of [
        "home/inner/deep",
        "home/.lemon/run",
        "second/x",
        "outside/secret",
        "home2",
      ])
        mkdirSync(join(top, path), { recursive: true });
      writeFileSync(join(top, "home/file"), "");
      for (const [name, target] of [
        ["to-inner", "inner"],
        ["to-inner-absolute", join(top, "home/inner")],
        ["to-second", join(top, "second")],
        ["to-second-relative", "../second"],
        ["around", "inner/../../home/inner/deep"],
        ["inner/up", ".."],
        ["to-outside", join(top, "outside")],
        ["to-outside-relative", "../outside"],
        ["dangling-outside", join(top, "nowhere/at/all")],
        ["dangling-inside", "nowhere"],
        ["to-file", "file"],
        ["to-state", ".lemon/run"],
        ["cycle-a", "cycle-b"],
        ["cycle-b", "cycle-a"],
        ["self", "self"],
      ] as const)
        symlinkSync(target, join(top, "home", name));
      symlinkSync(join(top, "home"), join(top, "alias"));
      symlinkSync(join(top, "outside"), join(top, "blind"));
      execFileSync("mkfifo", [join(top, "home/fifo")]);
      open = openFiles();
      roots = pinRoots(
        {
          roots: [join(top, "home"), join(top, "second")],
          defaultCwd: join(top, "home/inner"),
          stateFolder: join(top, "home/.lemon"),
        },
        openAt,
      );
    });
    afterEach(() => {
      roots.close();
      expect(openFiles()).to.deep.equal(open);
      folder[Symbol.dispose]();
    });

    function admitted(path: string): string {
      const directory = roots.openDirectory(path);
      const here = fstatSync(directory.fd);
      expect(here.isDirectory()).to.equal(true);
      expect(here.ino).to.equal(statSync(directory.path).ino);
      directory.close();
      directory.close();
      expect(directory.path.startsWith(top)).to.equal(true);
      return directory.path.slice(top.length + 1);
    }

    for (const [what, path, canonical] of [
      ["a root itself", "/home", "home"],
      ["what is below a root", "/home/inner/deep", "home/inner/deep"],
      ["a path with idle parts", "//home/./inner//deep/", "home/inner/deep"],
      ["a path from the default cwd", "deep", "home/inner/deep"],
      ["the default cwd itself", ".", "home/inner"],
      ["a link to a neighbour", "/home/to-inner/deep", "home/inner/deep"],
      ["an absolute link inside the root", "/home/to-inner-absolute/deep", "home/inner/deep"],
      ["a link into another root", "/home/to-second/x", "second/x"],
      ["a relative link into another root", "/home/to-second-relative/x", "second/x"],
      ["a link that leaves and comes back", "/home/around", "home/inner/deep"],
      ["a link upwards", "/home/inner/up/inner/up/to-second", "second"],
      ["a link from outside into a root", "/alias/inner", "home/inner"],
    ] as const) {
      it(`admit ${what}`, () => {
        expect(
          admitted(path.startsWith("/") || path.startsWith("//") ? top + path : path),
        ).to.equal(canonical);
      });
    }

    for (const [what, path, code] of [
      ["what is outside", "/outside", "path_not_allowed"],
      ["what is outside and does not exist", "/missing", "path_not_allowed"],
      ["a name that only begins like a root", "/home2", "path_not_allowed"],
      ["the parent of a root", "", "path_not_allowed"],
      ["a link to the outside", "/home/to-outside", "path_not_allowed"],
      ["what is behind a link to the outside", "/home/to-outside/secret", "path_not_allowed"],
      ["what is not even there behind it", "/home/to-outside/missing", "path_not_allowed"],
      ["a relative link to the outside", "/home/to-outside-relative/secret", "path_not_allowed"],
      ["a dangling link to the outside", "/home/dangling-outside", "path_not_allowed"],
      ["a link outside that leads outside", "/blind/secret", "path_not_allowed"],
      ["links in a circle", "/home/cycle-a", "path_not_allowed"],
      ["a link to itself", "/home/self/x", "path_not_allowed"],
      ["the state folder", "/home/.lemon", "path_not_allowed"],
      ["what is below the state folder", "/home/.lemon/run", "path_not_allowed"],
      ["what is not even there below it", "/home/.lemon/missing", "path_not_allowed"],
      ["a link into the state folder", "/home/to-state", "path_not_allowed"],
      ["what does not exist", "/home/missing", "not_found"],
      ["what does not exist further down", "/home/missing/deeper", "not_found"],
      ["a dangling link inside", "/home/dangling-inside", "not_found"],
      ["a file", "/home/file", "not_directory"],
      ["what is below a file", "/home/file/x", "not_directory"],
      ["a link to a file", "/home/to-file", "not_directory"],
      ["a FIFO, without waiting", "/home/fifo", "not_directory"],
      ["a name that is too long", `/home/${"x".repeat(256)}`, "invalid_path"],
      ["a climbing path, even one that comes back", "/home/inner/../inner", "invalid_path"],
      ["a path with NUL", "/home/inner\0", "invalid_path"],
      ["text that is no UTF-8", "/home/\ud800", "invalid_path"],
    ] as const satisfies readonly (readonly [string, string, ErrorCode])[]) {
      it(`refuse ${what}`, async () => {
        const refusal = await refusalOf(() => roots.openDirectory(top + path));
        expect(refusal.code).to.equal(code);
        expect(refusal.message).not.to.contain(top);
      });
    }

    it("follow 40 links and not one more", async () => {
      symlinkSync("inner", join(top, "home/link-1"));
      for (let n = 2; n <= 41; n += 1) symlinkSync(`link-${n - 1}`, join(top, `home/link-${n}`));
      expect(admitted(join(top, "home/link-40"))).to.equal("home/inner");
      const refusal = await refusalOf(() => roots.openDirectory(join(top, "home/link-41")));
      expect(refusal.code).to.equal("path_not_allowed");
    });

    it("refuse an empty path, and one of 4,097 bytes, but not one of 4,096", async () => {
      expect((await refusalOf(() => roots.openDirectory(""))).code).to.equal("invalid_path");
      const start = join(top, "home/inner");
      const long =
        start + "/.".repeat((4_096 - start.length) >> 1) + "/".repeat((4_096 - start.length) & 1);
      expect(Buffer.byteLength(long)).to.equal(4_096);
      expect(admitted(long)).to.equal("home/inner");
      expect((await refusalOf(() => roots.openDirectory(`${long}/`))).code).to.equal(
        "invalid_path",
      );
    });

    it("are the directories that were there at the start, whatever their paths name later", () => {
      const inode = statSync(join(top, "second/x")).ino;
      renameSync(join(top, "second"), join(top, "moved"));
      mkdirSync(join(top, "second/x"), { recursive: true });
      const directory = roots.openDirectory(join(top, "second/x"));
      expect(fstatSync(directory.fd).ino).to.equal(inode);
      directory.close();
    });

    it("see a folder that was exchanged for a link to the outside as what it is by then", async () => {
      const inner = join(top, "home/inner");
      renameSync(inner, `${inner}.old`);
      symlinkSync(join(top, "outside"), inner);
      expect((await refusalOf(() => roots.openDirectory(join(inner, "secret")))).code).to.equal(
        "path_not_allowed",
      );
      rmSync(inner);
      renameSync(`${inner}.old`, inner);
    });

    it("never open anything outside while folders and links change places", async () => {
      const inner = join(top, "home/inner");
      const outside = statSync(join(top, "outside/secret")).ino;
      mkdirSync(join(inner, "secret"));
      symlinkSync(join(top, "outside"), join(top, "home/trap"));
      // A real process that exchanges them as fast as it can, until it is killed.
      const script = `const { renameSync } = require("node:fs"); const [, a, b] = process.argv;
      for (;;) { renameSync(a, a + ".b"); renameSync(b, a); renameSync(a, b); renameSync(a + ".b", a); }`;
      const swapper = spawn(process.execPath, ["-e", script, inner, join(top, "home/trap")], {
        stdio: "ignore",
      });
      const seen = new Set<string>();
      try {
        for (let round = 0; round < 3_000 || seen.size < 2; round += 1) {
          await new Promise((resolve) => setImmediate(resolve));
          try {
            const directory = roots.openDirectory(join(inner, "secret"));
            seen.add("opened");
            expect(fstatSync(directory.fd).ino).not.to.equal(outside);
            directory.close();
          } catch (failure) {
            const { code } = await refusalOf(() => {
              throw failure;
            });
            seen.add(code);
          }
        }
      } finally {
        swapper.kill("SIGKILL");
      }
      expect([...seen]).to.satisfy((codes: string[]) =>
        codes.every((code) =>
          ["opened", "not_found", "not_directory", "path_not_allowed"].includes(code),
        ),
      );
    });

    it("admit nothing but directories inside, whatever the path", () => {
      const name = fc.constantFrom(
        "home",
        "inner",
        "deep",
        "second",
        "x",
        "outside",
        "secret",
        "alias",
        "blind",
        ".",
        "",
        "up",
        "to-second",
        "to-outside",
        "around",
        "to-inner",
        "self",
        ".lemon",
        "run",
        "file",
        "to-state",
      );
      const inside = [join(top, "home"), join(top, "second")];
      fc.assert(
        fc.property(fc.array(name, { maxLength: 8 }), (names) => {
          try {
            const directory = roots.openDirectory(`${top}/${names.join("/")}`);
            const { path } = directory;
            directory.close();
            expect(inside.some((root) => path === root || path.startsWith(`${root}/`))).to.equal(
              true,
            );
            expect(path.includes(".lemon")).to.equal(false);
          } catch (failure) {
            if (!(failure instanceof Error) || failure.name !== "LemonError") throw failure;
          }
        }),
        { numRuns: 500 },
      );
    });

    it("keep the state folder closed under another name, too", async () => {
      renameSync(join(top, "home/.lemon"), join(top, "home/renamed"));
      const refusal = await refusalOf(() => roots.openDirectory(join(top, "home/renamed/run")));
      expect(refusal.code).to.equal("path_not_allowed");
      renameSync(join(top, "home/renamed"), join(top, "home/.lemon"));
    });

    it("refuse all when they lie in the state folder", async () => {
      const own = pinRoots({
        roots: [join(top, "home/.lemon/run")],
        defaultCwd: top,
        stateFolder: join(top, "home/.lemon"),
      });
      const refusal = await refusalOf(() => own.openDirectory(join(top, "home/.lemon/run")));
      expect(refusal.code).to.equal("path_not_allowed");
      own.close();
    });

    it("may be configured through a link, and are then known by both names", () => {
      const own = pinRoots({
        roots: [join(top, "alias")],
        defaultCwd: join(top, "alias"),
        stateFolder: join(top, "second"),
      });
      for (const path of [join(top, "alias/inner"), join(top, "home/inner"), "inner"]) {
        const directory = own.openDirectory(path);
        expect(directory.path).to.equal(join(top, "home/inner"));
        directory.close();
      }
      own.close();
    });

    it("may be the whole file system", () => {
      const own = pinRoots({
        roots: ["/"],
        defaultCwd: "/",
        stateFolder: join(top, "home/.lemon"),
      });
      for (const path of [
        "/",
        ".",
        join(top, "outside"),
        join(top, "blind"),
        dirname(top).slice(1),
      ]) {
        own.openDirectory(path).close();
      }
      own.close();
    });

    it("are 1 to 64 existing directories", async () => {
      const spec = { defaultCwd: top, stateFolder: join(top, "home/.lemon") };
      const root = join(top, "home");
      pinRoots({ ...spec, roots: Array.from({ length: 64 }, () => root) }).close();
      for (const [paths, code] of [
        [[], "invalid_params"],
        [Array.from({ length: 65 }, () => root), "invalid_params"],
        [[root, join(top, "missing")], "not_found"],
        [[root, join(top, "home/file")], "not_directory"],
      ] as const) {
        expect((await refusalOf(() => pinRoots({ ...spec, roots: paths }))).code).to.equal(code);
      }
    });
  });
}

describe("a folder that this account may not enter", () => {
  it("is permission_denied, unless the account may do anything", async () => {
    using folder = tempFolder();
    const closed = join(folder.path, "closed");
    mkdirSync(join(closed, "below"), { recursive: true });
    mkdirSync(join(folder.path, "state"));
    const roots = pinRoots({
      roots: [folder.path],
      defaultCwd: folder.path,
      stateFolder: join(folder.path, "state"),
    });
    chmodSync(closed, 0o000);
    if (process.geteuid?.() === 0) roots.openDirectory(join(closed, "below")).close();
    else {
      const refusal = await refusalOf(() => roots.openDirectory(join(closed, "below")));
      expect(refusal.code).to.equal("permission_denied");
    }
    chmodSync(closed, 0o700);
    roots.close();
  });
});
