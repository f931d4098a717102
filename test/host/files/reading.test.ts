import { execFileSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  lstatSync,
  mkdirSync,
  openSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import { mimeOf } from "../../../host/files/mime.ts";
import { openFileOperations } from "../../../host/files/operations.ts";
import { setModified } from "../../../host/native/file.ts";
import { filesRoom } from "../../support/files-room.ts";
import { refusalOf } from "../../support/refusal.ts";

const NOBODY = 65_534;

/** Does something as an account that may not do anything it likes. */
function asNobody<T>(act: () => T): T {
  if (process.geteuid?.() !== 0) return act();
  process.seteuid?.(NOBODY);
  try {
    return act();
  } finally {
    process.seteuid?.(0);
  }
}

describe("a read", () => {
  it("gives the bytes from the offset on, and says whether they reach the end", () => {
    using room = filesRoom();
    const content = Buffer.from(Array.from({ length: 1_000 }, (_, n) => n % 251));
    writeFileSync(join(room.home, "file.png"), content);
    fc.assert(
      fc.property(
        fc.oneof(
          fc.integer({ min: 0, max: 1_100 }),
          fc.constantFrom(999, 1_000, 1_001, 2 ** 53 - 1),
        ),
        fc.oneof(fc.integer({ min: 1, max: 1_100 }), fc.constant(1_048_576)),
        (offset, length) => {
          const { bytes, ...rest } = room.files.read({ path: "file.png", offset, length });
          const wanted = content.subarray(offset, offset + length);
          expect(wanted.equals(bytes)).to.equal(true);
          expect(rest).to.deep.equal({
            path: join(room.home, "file.png"),
            offset,
            size: 1_000,
            mime: "image/png",
            eof: offset + wanted.length >= 1_000,
          });
        },
      ),
    );
  });

  it("of an empty file is empty and at the end", () => {
    using room = filesRoom();
    writeFileSync(join(room.home, "empty"), "");
    const { bytes, eof, size } = room.files.read({ path: "empty", offset: 0, length: 1 });
    expect([bytes.length, eof, size]).to.deep.equal([0, true, 0]);
  });

  it("of a whole MiB out of a sparse file of a TiB costs no more than a MiB", () => {
    using room = filesRoom();
    writeFileSync(join(room.home, "huge"), "");
    truncateSync(join(room.home, "huge"), 2 ** 40);
    const request = { path: "huge", offset: 2 ** 40 - 1_048_577, length: 1_048_576 };
    const { bytes, eof } = room.files.read(request);
    expect([bytes.length, eof]).to.deep.equal([1_048_576, false]);
    expect(room.files.read({ ...request, offset: request.offset + 1 }).eof).to.equal(true);
  });

  it("of what is no regular file is refused at once", async () => {
    using room = filesRoom();
    execFileSync("mkfifo", [join(room.home, "pipe")]);
    for (const [path, code] of [
      ["pipe", "not_regular"],
      [".", "is_directory"],
      ["missing", "not_found"],
    ] as const) {
      const read = () => room.files.read({ path, offset: 0, length: 1 });
      expect((await refusalOf(read)).code).to.equal(code);
    }
  });
});

describe("the machine's own files", () => {
  it("are told as what they are, and neither opened nor waited for", async () => {
    using room = filesRoom();
    const stateFolder = join(room.home, ".lemon");
    const files = openFileOperations({ roots: ["/"], defaultCwd: "/", stateFolder });
    const read = (path: string) => files.read({ path, offset: 0, length: 100 });
    const write = (path: string) =>
      files.write({
        path,
        bytes: Buffer.from("x"),
        offset: 0,
        truncate: true,
        mkdirs: true,
        expectedModifiedAtMs: files.stat({ path }).mtimeMs,
      });
    try {
      expect(files.stat({ path: "/dev/zero" }).type).to.equal("character_device");
      for (const path of ["/dev/zero", "/dev/null", "/dev/tty"]) {
        expect((await refusalOf(() => read(path))).code).to.equal("not_regular");
        expect((await refusalOf(() => write(path))).code).to.equal("not_regular");
      }
      // It says that it is empty, so that is what it reads as.
      expect(read("/proc/self/status")).to.include({ size: 0, eof: true });
      expect(files.stat({ path: "/proc/self/fd/0" })).to.have.property("path");
      expect(files.list({ path: "/proc/self", showHidden: true }).entries).not.to.deep.equal([]);
      const { path } = files.stat({ path: `/proc/self/root${room.home}` });
      expect(path).to.equal(room.home);
      for (const hidden of [`/proc/self/root${stateFolder}`, `${stateFolder}/key`]) {
        expect((await refusalOf(() => files.stat({ path: hidden }))).code).to.equal(
          "path_not_allowed",
        );
      }
    } finally {
      files.close();
    }
  });
});

describe("a stat", () => {
  it("tells size, mode and the ms of the last change, cut and not rounded", () => {
    using room = filesRoom();
    const path = join(room.home, "note.TXT");
    writeFileSync(path, "four");
    chmodSync(path, 0o640);
    const file = openSync(path, "r+");
    for (const [ns, ms] of [
      [1_791_936_000_123_999_999n, 1_791_936_000_123],
      [1_791_936_000_124_000_000n, 1_791_936_000_124],
      [999_999n, 0],
      [-1n, -1],
      [-1_000_000n, -1],
    ] as const) {
      setModified(file, ns);
      expect(statSync(path, { bigint: true }).mtimeNs).to.equal(ns);
      expect(room.files.stat({ path: "note.TXT" }).mtimeMs).to.equal(ms);
    }
    closeSync(file);
    expect(room.files.stat({ path: "note.TXT" })).to.include({
      path,
      type: "regular",
      size: 4,
      mode: lstatSync(path).mode,
      mime: "text/plain",
    });
  });

  it("asks the system what this account may do", () => {
    using room = filesRoom();
    const path = join(room.home, "file");
    writeFileSync(path, "");
    mkdirSync(join(room.home, "folder"));
    for (const [mode, readable, writable] of [
      [0o000, false, false],
      [0o444, true, false],
      [0o222, false, true],
      [0o666, true, true],
    ] as const) {
      for (const name of ["file", "folder"]) {
        chmodSync(join(room.home, name), mode);
        const stat = asNobody(() => room.files.stat({ path: name }));
        expect(stat).to.include({ readable, writable });
      }
    }
    if (process.geteuid?.() === 0) {
      chmodSync(path, 0);
      expect(room.files.stat({ path: "file" })).to.include({ readable: true, writable: true });
    }
  });

  it("guesses the media type from the name alone", () => {
    for (const [name, type] of [
      ["a.json", "application/json"],
      ["A.JPEG", "image/jpeg"],
      ["a.tar.gz", "application/gzip"],
      ["page.html", "text/html"],
      [".json", "application/octet-stream"],
      ["json", "application/octet-stream"],
      ["a.", "application/octet-stream"],
      ["a.constructor", "application/octet-stream"],
      ["", "application/octet-stream"],
    ] as const)
      expect(mimeOf(name), name).to.equal(type);
  });
});

describe("an account that may not", () => {
  const request = { bytes: Buffer.from("new"), offset: 0, truncate: true, mkdirs: true };

  it("is refused reading, writing and making, and nothing has changed", async () => {
    using room = filesRoom();
    const path = join(room.home, "file");
    writeFileSync(path, "old");
    chmodSync(path, 0o000);
    mkdirSync(join(room.home, "folder"));
    chmodSync(join(room.home, "folder"), 0o555);
    mkdirSync(join(room.home, "closed"));
    chmodSync(join(room.home, "closed"), 0o000);
    const { mtimeMs } = room.files.stat({ path: "file" });
    for (const act of [
      () => room.files.read({ path: "file", offset: 0, length: 1 }),
      () => room.files.write({ ...request, path: "file", expectedModifiedAtMs: mtimeMs }),
      () => room.files.write({ ...request, path: "folder/new", expectedModifiedAtMs: null }),
      () => room.files.mkdir({ path: "folder/a/b" }),
      () => room.files.stat({ path: "closed/x" }),
      () => room.files.list({ path: "closed", showHidden: true }),
    ]) {
      const refusal = await refusalOf(() => asNobody(act));
      expect(refusal.code).to.equal("permission_denied");
      expect(refusal.mutationMayHaveApplied).to.equal(false);
    }
    chmodSync(path, 0o600);
    chmodSync(join(room.home, "closed"), 0o700);
    expect(room.files.read({ path: "file", offset: 0, length: 9 }).bytes.toString()).to.equal(
      "old",
    );
    expect(room.files.list({ path: "folder", showHidden: true }).entries).to.deep.equal([]);
  });

  it("still advances the time of a file that it may write and does not own", () => {
    if (process.geteuid?.() !== 0) return;
    using room = filesRoom();
    const path = join(room.home, "shared");
    writeFileSync(path, "old");
    chmodSync(path, 0o666);
    const seen = new Set<number>();
    for (let round = 0; round < 10; round += 1) {
      const expectedModifiedAtMs = room.files.stat({ path: "shared" }).mtimeMs;
      const written = asNobody(() =>
        room.files.write({ ...request, path: "shared", expectedModifiedAtMs }),
      );
      expect(written.mtimeMs).to.be.above(expectedModifiedAtMs);
      seen.add(written.mtimeMs);
    }
    expect(seen.size).to.equal(10);
    const file = openSync(path, "r+");
    setModified(file, 4_000_000_000_000_000_000n);
    closeSync(file);
    const { mtimeMs } = room.files.stat({ path: "shared" });
    const { mtimeMs: now } = asNobody(() =>
      room.files.write({ ...request, path: "shared", expectedModifiedAtMs: mtimeMs }),
    );
    expect(now).not.to.equal(mtimeMs);
  });

  it("may write a file that it may not read, and a folder that it may not list", () => {
    using room = filesRoom();
    writeFileSync(join(room.home, "drop"), "old");
    mkdirSync(join(room.home, "folder"));
    chmodSync(join(room.home, "drop"), 0o222);
    chmodSync(join(room.home, "folder"), 0o333);
    const { mtimeMs } = room.files.stat({ path: "drop" });
    asNobody(() => {
      room.files.write({ ...request, path: "drop", expectedModifiedAtMs: mtimeMs });
      room.files.write({ ...request, path: "folder/sub/new", expectedModifiedAtMs: 0 });
      room.files.mkdir({ path: "folder/made" });
    });
    chmodSync(join(room.home, "drop"), 0o644);
    chmodSync(join(room.home, "folder"), 0o755);
    expect(room.files.read({ path: "drop", offset: 0, length: 9 }).bytes.toString()).to.equal(
      "new",
    );
    expect(room.files.stat({ path: "folder/sub/new" }).size).to.equal(3);
    expect(room.files.stat({ path: "folder/made" }).type).to.equal("directory");
  });

  it("is not allowed to change what is immutable", async () => {
    using room = filesRoom();
    const path = join(room.home, "file");
    writeFileSync(path, "old");
    const change = (flag: string) =>
      execFileSync("sh", ["-c", 'chattr "$0" "$1" 2>&1', flag, path]);
    try {
      change("+i");
    } catch {
      return;
    }
    try {
      const { mtimeMs, writable } = room.files.stat({ path: "file" });
      expect(writable).to.equal(false);
      const write = () =>
        room.files.write({ ...request, path: "file", expectedModifiedAtMs: mtimeMs });
      expect((await refusalOf(write)).code).to.equal("permission_denied");
    } finally {
      change("-i");
    }
    symlinkSync("file", join(room.home, "link"));
    expect(room.files.read({ path: "link", offset: 0, length: 9 }).bytes.toString()).to.equal(
      "old",
    );
  });
});
