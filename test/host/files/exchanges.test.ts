import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import { type FilesRoom, filesRoom, waysToOpen } from "../../support/files-room.ts";
import { tempFolder } from "../../support/temp-folder.ts";
import { watchTree } from "../../support/watched-tree.ts";

const EXCHANGER = fileURLToPath(new URL("../../support/exchanger.ts", import.meta.url));
const ROUNDS_MS = 1_000;
/** No file inside is as long. */
const SECRET = "secret".repeat(100);

/** What is exchanged for what, below the root. */
const PAIRS = [
  ["a", "link-outside"],
  ["a/sub", "a/sub-link"],
  ["a/file", "a/file-link"],
  ["file", "secret-link"],
  ["file", "pipe"],
  ["folder", "other-file"],
  ["lookalike", "state-link"],
] as const;

const PATHS = [
  "a",
  "a/",
  "a/file",
  "a/file-link",
  "a/sub",
  "a/sub/file",
  "a/sub-link/file",
  "link-outside/file",
  "link-outside/sub/file",
  "file",
  "secret-link",
  "pipe",
  "folder",
  "folder/file",
  "other-file",
  "lookalike/key",
  "state-link/key",
] as const;

/** What may be said of what changes while it is looked for. */
const REFUSALS = [
  "not_found",
  "path_not_allowed",
  "not_directory",
  "is_directory",
  "not_regular",
  "revision_conflict",
  "already_exists",
];

function furnish(room: FilesRoom): void {
  const { top, home } = room;
  for (const folder of ["a/sub", "folder", "lookalike"])
    mkdirSync(join(home, folder), { recursive: true });
  for (const file of ["a/file", "a/sub/file", "file", "folder/file", "other-file", "lookalike/key"])
    writeFileSync(join(home, file), "inside");
  mkdirSync(join(top, "outside/sub"));
  for (const file of ["secret", "file", "sub/file", "only-outside"])
    writeFileSync(join(top, "outside", file), SECRET);
  writeFileSync(join(home, ".lemon/key"), SECRET);
  for (const [name, target] of [
    ["link-outside", "../outside"],
    ["a/sub-link", "../../outside/sub"],
    ["a/file-link", join(top, "outside/file")],
    ["secret-link", "../outside/secret"],
    ["state-link", ".lemon"],
  ] as const)
    symlinkSync(target, join(home, name));
  execFileSync("mkfifo", [join(home, "pipe")]);
}

function contentOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .sort()
    .map((name) => {
      const stats = statSync(join(folder, name), { bigint: true });
      const content = stats.isFile() ? readFileSync(join(folder, name), "utf8") : "";
      return `${name} ${stats.ino} ${stats.mode} ${stats.mtimeNs} ${stats.ctimeNs} ${content}`;
    });
}

for (const { name, openAt } of waysToOpen()) {
  describe(`beside a program that exchanges names for links to the outside, walked with ${name}`, () => {
    it("nothing outside is opened, changed or disclosed", async () => {
      // In memory where there is such a place: many more rounds.
      using folder = tempFolder(existsSync("/dev/shm") ? "/dev/shm" : tmpdir());
      const room = filesRoom(openAt, folder.path);
      furnish(room);
      const forbidden = [join(room.top, "outside"), join(room.home, ".lemon")];
      const before = forbidden.map(contentOf);
      const watched = forbidden.map(watchTree);
      const pairs = PAIRS.flat().map((each) => join(room.home, each));
      const program = spawn(process.execPath, [EXCHANGER, ...pairs], {
        stdio: ["pipe", "pipe", "inherit"],
      });
      const lines = createInterface({ input: program.stdout });
      await once(lines, "line");

      const seen = new Map<string, number>();
      const end = Date.now() + ROUNDS_MS;
      try {
        for (let round = 0; Date.now() < end; round += 1) attemptAll(room, round, seen);
      } catch (failure) {
        program.kill("SIGKILL");
        throw failure;
      }

      const told = once(lines, "line");
      program.stdin.end();
      const [exchanged] = await told;
      await once(program, "close");
      expect(Number(exchanged)).to.be.above(1_000);
      for (const tree of watched) expect(tree.isTouched()).to.equal(false);
      expect(forbidden.map(contentOf)).to.deep.equal(before);
      // The watch would have seen it.
      closeSync(openSync(join(room.top, "outside/sub/file"), "r"));
      expect(watched[0]?.isTouched()).to.equal(true);
      for (const tree of watched) tree[Symbol.dispose]();

      // Both luck and refusal were met, by everything.
      for (const operation of ["stat", "list", "read", "write", "create", "mkdir"]) {
        expect(seen.get(`${operation} done`) ?? 0, operation).to.be.above(0);
        expect(seen.get(`${operation} path_not_allowed`) ?? 0, operation).to.be.above(0);
      }
      room[Symbol.dispose]();
    });
  });
}

/** Every operation on every path, once. */
function attemptAll(
  { files, top, home }: FilesRoom,
  round: number,
  seen: Map<string, number>,
): void {
  const attempt = (operation: string, act: () => string) => {
    let outcome = "done";
    try {
      const path = act();
      expect(`${path}/`.startsWith(`${home}/`), path).to.equal(true);
      expect(path).not.to.contain(".lemon");
    } catch (failure) {
      if (!(failure instanceof LemonError)) throw failure;
      outcome = failure.code;
      expect(REFUSALS).to.include(outcome);
      expect(failure.message).not.to.contain(top);
    }
    seen.set(`${operation} ${outcome}`, (seen.get(`${operation} ${outcome}`) ?? 0) + 1);
  };
  for (const path of PATHS) {
    attempt("stat", () => {
      const stat = files.stat({ path });
      // The size of a directory may be anything.
      if (stat.type === "regular") expect(stat.size).not.to.equal(SECRET.length);
      expect(stat.type).not.to.equal("symlink");
      return stat.path;
    });
    attempt("list", () => {
      const { path: canonical, entries } = files.list({ path, showHidden: true });
      for (const entry of entries) {
        expect(entry.name).not.to.equal("only-outside");
        if ("error" in entry) expect(entry.error).to.equal("not_found");
        else if (entry.type === "regular") expect(entry.size).not.to.equal(SECRET.length);
      }
      return canonical;
    });
    attempt("read", () => {
      const { path: canonical, bytes } = files.read({ path, offset: 0, length: 100 });
      expect(Buffer.from(bytes).toString()).to.match(/^inside/);
      return canonical;
    });
    const change = {
      bytes: Buffer.from(`inside ${round}`),
      offset: 0,
      truncate: true,
      mkdirs: true,
    };
    attempt("write", () => {
      const expectedModifiedAtMs = files.stat({ path }).mtimeMs;
      return files.write({ ...change, path, expectedModifiedAtMs }).path;
    });
    attempt(
      "create",
      () => files.write({ ...change, path: `${path}/new/${round}`, expectedModifiedAtMs: 0 }).path,
    );
    attempt("mkdir", () => files.mkdir({ path: `${path}/made/${round % 7}` }).path);
  }
}
