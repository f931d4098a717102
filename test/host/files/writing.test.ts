import {
  chmodSync,
  closeSync,
  existsSync,
  fstatSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import { setModified } from "../../../host/native/file.ts";
import { type FilesRoom, filesRoom } from "../../support/files-room.ts";
import { refusalOf } from "../../support/refusal.ts";

type Write = Parameters<FilesRoom["files"]["write"]>[0];

describe("a write", () => {
  let room: FilesRoom;
  beforeEach(() => {
    room = filesRoom();
  });
  afterEach(() => {
    room[Symbol.dispose]();
  });

  const write = (path: string, text: string, more: Partial<Write> = {}) =>
    room.files.write({
      path,
      bytes: Buffer.from(text),
      offset: 0,
      truncate: true,
      mkdirs: false,
      expectedModifiedAtMs: null,
      ...more,
    });
  const refused = async (...request: Parameters<typeof write>) =>
    (await refusalOf(() => write(...request))).code;
  const content = (name: string) => readFileSync(join(room.home, name), "utf8");
  const msOf = (name: string) => room.files.stat({ path: name }).mtimeMs;

  it("creates a missing file, told to be missing or not told anything", () => {
    for (const [name, expectedModifiedAtMs] of [
      ["a", null],
      ["b", 0],
    ] as const) {
      const written = write(name, "Hello", { expectedModifiedAtMs });
      const { mtimeMs, size } = statSync(join(room.home, name));
      expect(written).to.deep.equal({
        path: join(room.home, name),
        offset: 0,
        bytesWritten: 5,
        size,
        mtimeMs: Math.floor(mtimeMs),
      });
      expect(content(name)).to.equal("Hello");
    }
  });

  it("goes on where the chunk before ended, with the revision of its receipt", () => {
    const first = write("note", "Hello ");
    const second = write("note", "world", { offset: 6, expectedModifiedAtMs: first.mtimeMs });
    expect(second.size).to.equal(11);
    expect(second.mtimeMs).to.be.above(first.mtimeMs);
    expect(content("note")).to.equal("Hello world");
  });

  it("cuts after what it wrote, or keeps what follows", () => {
    const { mtimeMs } = write("note", "0123456789");
    const kept = write("note", "AB", { offset: 2, truncate: false, expectedModifiedAtMs: mtimeMs });
    expect([content("note"), kept.size]).to.deep.equal(["01AB456789", 10]);
    const cut = write("note", "CD", { offset: 4, expectedModifiedAtMs: kept.mtimeMs });
    expect([content("note"), cut.size]).to.deep.equal(["01ABCD", 6]);
    const emptied = write("note", "", { offset: 3, expectedModifiedAtMs: cut.mtimeMs });
    expect([content("note"), emptied.size, emptied.bytesWritten]).to.deep.equal(["01A", 3, 0]);
  });

  it("of nothing advances the revision all the same", () => {
    const first = write("note", "abc");
    const same = write("note", "", { truncate: false, expectedModifiedAtMs: first.mtimeMs });
    expect(same.mtimeMs).to.be.above(first.mtimeMs);
    expect(content("note")).to.equal("abc");
  });

  it("beyond the end leaves a hole that reads as zeros", () => {
    const { mtimeMs } = write("sparse", "a", { offset: 5 });
    expect(content("sparse")).to.equal("\0\0\0\0\0a");
    write("sparse", "b", { offset: 1_000_000_000, expectedModifiedAtMs: mtimeMs });
    const { size, blocks } = statSync(join(room.home, "sparse"));
    expect(size).to.equal(1_000_000_001);
    expect(blocks * 512).to.be.below(1_000_000);
    expect(write("hole", "", { offset: 7 }).size).to.equal(7);
    expect(write("none", "", { offset: 7, truncate: false }).size).to.equal(0);
  });

  it("does to a file what it would do to bytes in memory", () => {
    const step = fc.record({
      text: fc.string({ maxLength: 12 }),
      offset: fc.integer({ min: 0, max: 20 }),
      truncate: fc.boolean(),
    });
    let files = 0;
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 5 }), (steps) => {
        files += 1;
        let model = Buffer.alloc(0);
        let expected: number | null = null;
        for (const { text, offset, truncate } of steps) {
          const bytes = Buffer.from(text);
          const end = offset + bytes.length;
          const reached = bytes.length > 0 || truncate ? end : 0;
          const next = Buffer.alloc(truncate ? end : Math.max(model.length, reached));
          model.copy(next, 0, 0, next.length);
          bytes.copy(next, offset);
          model = next;
          const path = `model-${files}`;
          const written = write(path, text, { offset, truncate, expectedModifiedAtMs: expected });
          if (expected !== null) expect(written.mtimeMs).to.be.above(expected);
          expected = written.mtimeMs;
          expect(written.size).to.equal(model.length);
          expect(readFileSync(join(room.home, path)).equals(model)).to.equal(true);
        }
      }),
      { numRuns: 60 },
    );
  });

  for (const [what, expected, code] of [
    ["is not told", null, "revision_conflict"],
    ["is told to be missing", 0, "revision_conflict"],
    ["is another", 1, "revision_conflict"],
  ] as const) {
    it(`to an existing file whose revision ${what} changes nothing`, async () => {
      write("note", "before");
      const { mtimeMs } = statSync(join(room.home, "note"));
      expect(await refused("note", "after", { expectedModifiedAtMs: expected })).to.equal(code);
      expect(content("note")).to.equal("before");
      expect(statSync(join(room.home, "note")).mtimeMs).to.equal(mtimeMs);
    });
  }

  it("to a missing file that is told to be there makes nothing, no parents either", async () => {
    const told = { expectedModifiedAtMs: 5, mkdirs: true };
    expect(await refused("x/y/z", "new", told)).to.equal("revision_conflict");
    expect(readdirSync(room.home)).to.deep.equal([".lemon"]);
  });

  it("to a file of the year 1970 is a conflict with 0, which says that nothing is there", async () => {
    write("old", "x");
    utimesSync(join(room.home, "old"), 0, 0);
    expect(msOf("old")).to.equal(0);
    expect(await refused("old", "y", { expectedModifiedAtMs: 0 })).to.equal("revision_conflict");
  });

  it("sees a change that left the ms, or put it back", async () => {
    const path = join(room.home, "note");
    const at = (fraction: number) => utimesSync(path, 1_000, 1_000 + fraction);
    write("note", "one");
    for (const change of [
      () => at(0.0002),
      () => {
        writeFileSync(path, "two");
        at(0);
      },
      () => {
        writeFileSync(`${path}.new`, "one");
        renameSync(`${path}.new`, path);
        at(0);
      },
    ]) {
      at(0);
      const expectedModifiedAtMs = msOf("note");
      change();
      expect(Math.floor(statSync(path).mtimeMs)).to.equal(expectedModifiedAtMs);
      expect(await refused("note", "new", { expectedModifiedAtMs })).to.equal("revision_conflict");
      // Looked at again, it may be written.
      write("note", "new", { expectedModifiedAtMs: msOf("note") });
    }
  });

  it("holds of two callers the one that was told before, until the other is told the same ms", async () => {
    const path = join(room.home, "note");
    write("note", "one");
    const first = msOf("note");
    utimesSync(path, 2_000, 2_000);
    const second = msOf("note");
    // What the second was told makes no older revision good.
    expect(await refused("note", "x", { expectedModifiedAtMs: first })).to.equal(
      "revision_conflict",
    );
    const third = write("note", "two", { expectedModifiedAtMs: second }).mtimeMs;
    expect(await refused("note", "x", { expectedModifiedAtMs: second })).to.equal(
      "revision_conflict",
    );
    // Another program changes it and puts the ms back: nobody was told of that, then the second is.
    writeFileSync(path, "changed");
    // In the middle of it: a number of seconds is no exact one.
    const within = (third + 0.5) / 1_000;
    utimesSync(path, within, within);
    expect(await refused("note", "x", { expectedModifiedAtMs: third })).to.equal(
      "revision_conflict",
    );
    expect(msOf("note")).to.equal(third);
    // Requests say no more than the ms, and not whose they are: the first can not be told from the second.
    write("note", "three", { expectedModifiedAtMs: third });
    expect(content("note")).to.equal("three");
  });

  it("compares the ms alone for a file it was never asked about", () => {
    writeFileSync(join(room.home, "note"), "one");
    const { mtimeMs } = statSync(join(room.home, "note"));
    write("note", "two", { expectedModifiedAtMs: Math.floor(mtimeMs) });
    expect(content("note")).to.equal("two");
  });

  it("may use the revision of a listing", () => {
    writeFileSync(join(room.home, "note"), "one");
    const [entry] = room.files.list({ path: ".", showHidden: false }).entries;
    if (entry === undefined || "error" in entry) throw new Error("no entry");
    write("note", "two", { expectedModifiedAtMs: entry.mtimeMs });
    expect(content("note")).to.equal("two");
  });

  it("always advances the ms, also of a file with a time in the future or before 1970", () => {
    let { mtimeMs } = write("note", "x");
    for (let round = 0; round < 30; round += 1) {
      const next = write("note", "y", { expectedModifiedAtMs: mtimeMs }).mtimeMs;
      expect(next).to.be.above(mtimeMs);
      mtimeMs = next;
    }
    const file = openSync(join(room.home, "note"), "r+");
    for (const ms of [4_000_000_000_500, -5_501]) {
      setModified(file, BigInt(ms) * 1_000_000n + 999_999n);
      const before = msOf("note");
      expect(before).to.equal(ms);
      expect(write("note", "z", { expectedModifiedAtMs: before }).mtimeMs).to.be.above(before);
    }
    closeSync(file);
  });

  it("gives another ms to a file with the latest time that its file system can keep", () => {
    const path = join(room.home, "note");
    write("note", "x");
    const file = openSync(path, "r+");
    // 2^62 s: each file system makes of it what it can.
    setModified(file, 2n ** 62n * 1_000_000_000n);
    closeSync(file);
    const latest = msOf("note");
    expect(latest).to.be.above(Date.now());
    const { mtimeMs } = write("note", "y", { expectedModifiedAtMs: latest });
    expect(mtimeMs).not.to.equal(latest);
    expect(msOf("note")).to.equal(mtimeMs);
  });

  it("through a link is a write to what it leads to, and both are one file", async () => {
    const { mtimeMs } = write("note", "x");
    symlinkSync("note", join(room.home, "alias"));
    const second = write("alias", "y", { expectedModifiedAtMs: mtimeMs });
    expect(second.path).to.equal(join(room.home, "note"));
    expect(await refused("note", "z", { expectedModifiedAtMs: mtimeMs })).to.equal(
      "revision_conflict",
    );
    linkSync(join(room.home, "note"), join(room.home, "hard"));
    const third = write("hard", "z", { expectedModifiedAtMs: msOf("hard") });
    expect(await refused("note", "z", { expectedModifiedAtMs: second.mtimeMs })).to.equal(
      "revision_conflict",
    );
    expect(msOf("note")).to.equal(third.mtimeMs);
  });

  it("through a dangling link inside creates what it names", () => {
    symlinkSync("later/file", join(room.home, "dangling"));
    const written = write("dangling", "x", { mkdirs: true });
    expect(written.path).to.equal(join(room.home, "later/file"));
    expect(content("later/file")).to.equal("x");
  });

  it("through a dangling link to the outside creates nothing there", async () => {
    symlinkSync(join(room.top, "outside/new"), join(room.home, "escape"));
    symlinkSync("../outside/deep/er", join(room.home, "deep-escape"));
    for (const path of ["escape", "deep-escape", "deep-escape/x"])
      expect(await refused(path, "x", { mkdirs: true })).to.equal("path_not_allowed");
    expect(readdirSync(join(room.top, "outside"))).to.deep.equal(["secret"]);
  });

  it("makes missing parents when it may, and is not_found when it may not", async () => {
    expect(await refused("a/b/c", "x")).to.equal("not_found");
    expect(existsSync(join(room.home, "a"))).to.equal(false);
    expect(write("a/b/c", "x", { mkdirs: true }).path).to.equal(join(room.home, "a/b/c"));
    expect(content("a/b/c")).to.equal("x");
  });

  it("of 1 MiB is taken, and of one byte more refused before anything is made", async () => {
    const bytes = Buffer.alloc(1_048_577, 1);
    expect(await refused("d/big", "", { bytes, mkdirs: true })).to.equal("too_large");
    expect(existsSync(join(room.home, "d"))).to.equal(false);
    const written = write("big", "", { bytes: bytes.subarray(1) });
    expect(written.size).to.equal(1_048_576);
  });

  it("at an offset whose size no number could tell is too_large", async () => {
    const most = Number.MAX_SAFE_INTEGER;
    expect(await refused("far", "x", { offset: most })).to.equal("too_large");
    expect(await refused("far", "x", { offset: -1 })).to.equal("invalid_params");
    expect(await refused("far", "x", { offset: most + 1 })).to.equal("invalid_params");
    // Within the bound it is the file system that says no, and nothing is left of the attempt.
    const huge = { offset: most - 1, mkdirs: true };
    try {
      write("p/far", "x", huge);
      expect(statSync(join(room.home, "p/far")).size).to.equal(most);
      rmSync(join(room.home, "p"), { recursive: true });
    } catch (failure) {
      expect(failure).to.have.property("code", "too_large");
    }
    expect(readdirSync(room.home)).to.deep.equal([".lemon"]);
  });

  it("keeps the inode, the mode, the links and the readers of what it overwrites", () => {
    const path = join(room.home, "note");
    const { mtimeMs } = write("note", "before");
    chmodSync(path, 0o640);
    const reader = openSync(path, "r");
    const { ino } = statSync(path);
    write("note", "after", { expectedModifiedAtMs: msOf("note") });
    expect(mtimeMs).to.be.a("number");
    expect(statSync(path).ino).to.equal(ino);
    expect(statSync(path).mode & 0o777).to.equal(0o640);
    expect(fstatSync(reader).size).to.equal(5);
    closeSync(reader);
  });

  it("gives a new file the mode that the umask leaves", () => {
    const umask = process.umask(0o027);
    try {
      write("d/file", "x", { mkdirs: true });
    } finally {
      process.umask(umask);
    }
    expect(statSync(join(room.home, "d/file")).mode & 0o777).to.equal(0o640);
    expect(statSync(join(room.home, "d")).mode & 0o777).to.equal(0o750);
  });

  it("to what is no regular file is refused, and to a name that says directory", async () => {
    mkdirSync(join(room.home, "d"));
    write("file", "x");
    for (const [path, code] of [
      [".", "is_directory"],
      ["d", "is_directory"],
      ["d/", "is_directory"],
      ["new/", "is_directory"],
      ["new/.", "is_directory"],
      ["file/", "not_directory"],
      ["file/x", "not_directory"],
      [".lemon/x", "path_not_allowed"],
      [".lemon", "path_not_allowed"],
      ["../outside/x", "invalid_path"],
      [join(room.top, "outside/x"), "path_not_allowed"],
      [`${"n".repeat(256)}`, "invalid_path"],
      [`p/${"n".repeat(256)}`, "invalid_path"],
    ] as const)
      expect(await refused(path, "y", { mkdirs: true }), path).to.equal(code);
    expect(readdirSync(room.home).sort()).to.deep.equal([".lemon", "d", "file"]);
    expect(write("n".repeat(255), "y").size).to.equal(1);
  });
});

describe("making a directory", () => {
  it("makes its parents, and is content with one that is there", async () => {
    using room = filesRoom();
    const mkdir = (path: string) => room.files.mkdir({ path });
    const path = join(room.home, "a/b/c");
    expect(mkdir("a/b/c/")).to.deep.equal({ path });
    const { ino, mtimeMs } = statSync(path);
    expect(mkdir("a/b/c")).to.deep.equal({ path });
    expect(statSync(path)).to.include({ ino, mtimeMs });
    expect(mkdir(".")).to.deep.equal({ path: room.home });
    symlinkSync("a/new", join(room.home, "link"));
    expect(mkdir("link")).to.deep.equal({ path: join(room.home, "a/new") });
    expect(statSync(join(room.home, "a/new")).isDirectory()).to.equal(true);
  });

  it("refuses what is in the way, and what lies outside, and leaves nothing", async () => {
    using room = filesRoom();
    writeFileSync(join(room.home, "file"), "");
    symlinkSync("../outside/new", join(room.home, "escape"));
    for (const [path, code] of [
      ["file", "already_exists"],
      ["file/", "not_directory"],
      ["file/x", "not_directory"],
      ["escape", "path_not_allowed"],
      ["escape/x", "path_not_allowed"],
      [".lemon/x", "path_not_allowed"],
      [join(room.top, "new"), "path_not_allowed"],
      [`x/y/${"n".repeat(256)}`, "invalid_path"],
    ] as const)
      expect((await refusalOf(() => room.files.mkdir({ path }))).code, path).to.equal(code);
    expect(readdirSync(room.home).sort()).to.deep.equal([".lemon", "escape", "file"]);
    expect(readdirSync(join(room.top, "outside"))).to.deep.equal(["secret"]);
  });
});
