import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import { rendered } from "../../../host/files/listing.ts";
import type { FileEntry } from "../../../host/files/operations.ts";
import { directoryNames } from "../../../host/native/directory-names.ts";
import { setModified } from "../../../host/native/file.ts";
import { filesRoom } from "../../support/files-room.ts";
import { refusalOf } from "../../support/refusal.ts";
import { tempFolder } from "../../support/temp-folder.ts";

const names = (entries: readonly FileEntry[]) => entries.map(({ name }) => name);

describe("a listing", () => {
  it("is sorted by the bytes of the names, and hides those with a dot unless asked", () => {
    using room = filesRoom();
    // In UTF-16 the last two would change places.
    const visible = ["B", "a", "b c", "é", "\uffee", "😀"];
    for (const name of [...visible.toReversed(), ".hidden"])
      writeFileSync(join(room.home, name), "");
    const list = (showHidden: boolean) => room.files.list({ path: ".", showHidden });
    expect(list(false)).to.include({ path: room.home, truncated: false });
    expect(names(list(false).entries)).to.deep.equal(visible);
    expect(names(list(true).entries)).to.deep.equal([".hidden", ".lemon", ...visible]);
  });

  it("tells of each entry what stat tells, and of a link that it is one", async () => {
    using room = filesRoom();
    const at = (name: string) => join(room.home, name);
    writeFileSync(at("file.json"), "{}");
    mkdirSync(at("folder"));
    symlinkSync(join(room.top, "outside/secret"), at("link"));
    execFileSync("mkfifo", [at("pipe")]);
    const server = createServer().listen(at("socket"));
    await once(server, "listening");
    try {
      const { entries } = room.files.list({ path: room.home, showHidden: false });
      for (const entry of entries) {
        if (entry.name === "link") continue;
        const { path, ...stat } = room.files.stat({ path: entry.name });
        expect(entry).to.deep.equal({ name: entry.name, ...stat });
        expect(path).to.equal(at(entry.name));
      }
      const kinds = entries.map((entry) => ("error" in entry ? entry.error : entry.type));
      expect(kinds).to.deep.equal(["regular", "directory", "symlink", "fifo", "socket"]);
      expect(entries[0]).to.include({ size: 2, mime: "application/json", readable: true });
      // As long as its target's path, and nothing else of it.
      expect(entries[2]).to.include({ size: join(room.top, "outside/secret").length });
      expect(JSON.stringify(entries)).not.to.contain("outside");
    } finally {
      server.close();
    }
  });

  it("tells of the state folder its name, and that it is not allowed", () => {
    using room = filesRoom();
    expect(room.files.list({ path: ".", showHidden: true }).entries).to.deep.equal([
      { name: ".lemon", error: "path_not_allowed" },
    ]);
    renameSync(join(room.home, ".lemon"), join(room.home, "renamed"));
    expect(room.files.list({ path: ".", showHidden: true }).entries).to.deep.equal([
      { name: "renamed", error: "path_not_allowed" },
    ]);
  });

  it("gives 500 entries whole, and of 501 the first 500", () => {
    using room = filesRoom();
    const name = (n: number) => `f${String(n).padStart(6, "0")}`;
    for (let n = 499; n >= 0; n -= 1) writeFileSync(join(room.home, name(n)), "");
    const list = () => room.files.list({ path: ".", showHidden: false });
    expect(list()).to.have.property("truncated", false);
    expect(list().entries).to.have.length(500);
    writeFileSync(join(room.home, "e"), "");
    writeFileSync(join(room.home, ".hidden"), "");
    expect(list()).to.have.property("truncated", true);
    const first = ["e", ...Array.from({ length: 499 }, (_, n) => name(n))];
    expect(names(list().entries)).to.deep.equal(first);
    rmSync(join(room.home, "e"));
    expect(list()).to.have.property("truncated", false);
  });

  it("of 100,000 entries costs no more memory than one of 1,000, and looks at 500", () => {
    using room = filesRoom();
    const folder = join(room.home, "many");
    mkdirSync(folder);
    const first = join(room.home, "first");
    closeSync(openSync(first, "w"));
    // Names of one file each would take long; many names of few files are as long a directory.
    const script = `const { linkSync, writeFileSync } = require("node:fs"); const [, folder] = process.argv;
      const { createHash } = require("node:crypto");
      for (let n = 0; n < 100_000; n += 1) {
        const name = createHash("sha256").update(String(n)).digest("hex").slice(0, 20);
        if (n % 50_000 === 0) writeFileSync(folder + "/" + name, ""), globalThis.file = folder + "/" + name;
        else linkSync(globalThis.file, folder + "/" + name);
      }`;
    execFileSync(process.execPath, ["-e", script, folder]);
    const list = () => room.files.list({ path: "many", showHidden: false });
    list();
    const before = process.memoryUsage().arrayBuffers;
    const listing = list();
    expect(process.memoryUsage().arrayBuffers - before).to.be.below(4 * 1024 * 1024);
    const all = Array.from({ length: 100_000 }, (_, n) =>
      createHash("sha256").update(String(n)).digest("hex").slice(0, 20),
    );
    expect(names(listing.entries)).to.deep.equal(all.sort().slice(0, 500));
    expect(listing.truncated).to.equal(true);
  });

  it("renders a name that is no UTF-8 so that it reads like no other, and hides none", async () => {
    using room = filesRoom();
    const create = (name: Buffer) =>
      writeFileSync(Buffer.concat([Buffer.from(`${room.home}/`), name]), "");
    for (const text of ["bad\\xff", "bad�", "bad", "badff"]) create(Buffer.from(text));
    create(Buffer.from("626164ff", "hex"));
    create(Buffer.from("626164fe", "hex"));
    create(Buffer.from("c3a9c3", "hex"));
    const { entries } = room.files.list({ path: ".", showHidden: false });
    expect(entries).to.have.length(7);
    expect(new Set(names(entries)).size).to.equal(7);
    const refused = entries.filter((entry) => "error" in entry);
    expect(refused).to.deep.equal([
      { name: "bad\0fe", error: "invalid_path" },
      { name: "bad\0ff", error: "invalid_path" },
      { name: "é\0c3", error: "invalid_path" },
    ]);
    for (const { name } of refused) {
      const refusal = await refusalOf(() => room.files.stat({ path: name }));
      expect(refusal.code).to.equal("invalid_path");
    }
    for (const entry of entries) if (!("error" in entry)) room.files.stat({ path: entry.name });
  });

  it("renders names in a way that can be read back, byte for byte", () => {
    const byte = fc.oneof(
      fc.integer({ min: 1, max: 255 }),
      fc.constantFrom(0xc3, 0xa9, 0xf0, 0x9f),
    );
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 12 }), fc.array(byte), (one, other) => {
        const name = Buffer.from([...one, ...other].filter((each) => each !== 0));
        const back = rendered(name)
          .split("\0")
          .map((part, at) =>
            at === 0
              ? Buffer.from(part)
              : Buffer.concat([Buffer.from(part.slice(0, 2), "hex"), Buffer.from(part.slice(2))]),
          );
        expect(Buffer.concat(back).equals(name)).to.equal(true);
      }),
    );
  });

  it("gives names with newlines, tabs, escapes and quotes as they are", () => {
    using room = filesRoom();
    const odd = ["\n", "\t\u001b[31mred", ' "quoted" ', "\\", "\u202e", "a\r\nb", "\ufeffbom"];
    for (const name of odd) writeFileSync(join(room.home, name), name);
    const { entries } = room.files.list({ path: ".", showHidden: false });
    expect(new Set(names(entries))).to.deep.equal(new Set(odd));
    for (const name of odd)
      expect(room.files.stat({ path: name }).size).to.equal(Buffer.byteLength(name));
  });

  it("tells of a size and a time beyond all numbers the last that can be told", async () => {
    if (!existsSync("/dev/shm")) return;
    using folder = tempFolder("/dev/shm");
    using room = filesRoom(undefined, folder.path);
    const file = openSync(join(room.home, "absurd"), "w");
    // 2^60 bytes: more than Node's own call takes.
    execFileSync("sh", ["-c", 'truncate -s 1E "$0"', join(room.home, "absurd")]);
    setModified(file, 2n ** 62n * 1_000_000_000n);
    closeSync(file);
    const [entry] = room.files.list({ path: ".", showHidden: false }).entries;
    const most = Number.MAX_SAFE_INTEGER;
    expect(entry).to.include({ size: most, mtimeMs: most });
    expect(room.files.read({ path: "absurd", offset: most, length: 1 })).to.include({ eof: true });
    const write = () =>
      room.files.write({
        path: "absurd",
        bytes: Buffer.from("x"),
        offset: 0,
        truncate: false,
        mkdirs: false,
        expectedModifiedAtMs: most,
      });
    expect((await refusalOf(write)).code).to.equal("too_large");
  });

  it("of what is no directory, or not there, is refused", async () => {
    using room = filesRoom();
    writeFileSync(join(room.home, "file"), "");
    execFileSync("mkfifo", [join(room.home, "pipe")]);
    for (const [path, code] of [
      ["file", "not_directory"],
      ["pipe", "not_directory"],
      ["missing", "not_found"],
      [".lemon", "path_not_allowed"],
      [room.top, "path_not_allowed"],
    ] as const) {
      const refusal = await refusalOf(() => room.files.list({ path, showHidden: true }));
      expect(refusal.code, path).to.equal(code);
    }
  });

  it("of a folder that may be read and not entered tells of each that it can not be looked at", () => {
    using room = filesRoom();
    const closed = join(room.home, "closed");
    mkdirSync(closed);
    writeFileSync(join(closed, "file"), "");
    chmodSync(closed, 0o444);
    const { entries } = room.files.list({ path: "closed", showHidden: false });
    const [entry] = entries;
    if (process.geteuid?.() === 0) expect(entry).to.include({ type: "regular" });
    else expect(entry).to.deep.equal({ name: "file", error: "permission_denied" });
    chmodSync(closed, 0o700);
  });
});

describe("the names in a directory", () => {
  it("are those that Node reads, however many slices they take", () => {
    using room = filesRoom();
    for (let n = 0; n < 3_000; n += 1)
      writeFileSync(join(room.home, `${"x".repeat(n % 200)}${n}`), "");
    const folder = openSync(room.home, "r");
    const read = [...directoryNames(folder)].sort();
    closeSync(folder);
    expect(read).to.deep.equal(readdirSync(room.home).sort());
  });
});
