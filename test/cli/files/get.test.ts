/** Proves how `lemon fs get` brings a file: whole, of one revision, or not at all. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import { FsCommands } from "../../support/fs-commands.ts";
import { smallDisk } from "../../support/small-disk.ts";

const MIB = 1_048_576;

describe("lemon fs get", () => {
  let room: FsCommands;
  beforeEach(async () => {
    room = await FsCommands.open();
  });
  afterEach(() => room[Symbol.asyncDispose]());

  it("brings a file of several chunks, bit for bit, through three cuts", async () => {
    const bytes = randomBytes(6 * MIB + 1);
    room.remote.put("dir/a.bin", bytes);
    room.remote.meet("read", null, "before", null, "after", null, "before");
    expect(await room.fs("get", "worker-1:dir/a.bin")).to.equal(0);
    expect(readFileSync(room.local("a.bin")).equals(bytes)).to.equal(true);
    expect(readdirSync(room.folder)).to.deep.equal(["a.bin"]);
    expect(room.shell.stderr.text).to.not.include("\r");
  });

  it("goes on with what an earlier one left, and with nothing of another revision", async () => {
    const bytes = randomBytes(3 * MIB);
    room.remote.put("a", bytes);
    const parts = () => readdirSync(room.folder).filter((name) => name.startsWith(".lemon-get-"));
    room.remote.meet("read", null, null, new LemonError("permission_denied"));
    expect(await room.fs("get", "worker-1:a", "b")).to.equal(121);
    expect(parts()).to.have.length(1);
    expect(existsSync(room.local("b"))).to.equal(false);
    room.newShell();
    expect(await room.fs("get", "worker-1:a", "b", "--json")).to.equal(0);
    expect(room.shell.document).to.include({ size: 3 * MIB, resumedAt: 2 * MIB });
    expect(readFileSync(room.local("b")).equals(bytes)).to.equal(true);
    expect(parts()).to.deep.equal([]);

    room.remote.meet("read", null, null, new LemonError("permission_denied"));
    expect(await room.fs("get", "worker-1:a", "c")).to.equal(121);
    const newer = randomBytes(3 * MIB);
    room.remote.put("a", newer);
    room.newShell();
    expect(await room.fs("get", "worker-1:a", "c", "--json")).to.equal(0);
    expect(room.shell.document).to.include({ resumedAt: 0 });
    expect(readFileSync(room.local("c")).equals(newer)).to.equal(true);
  });

  it("mixes no two revisions, and leaves no part of what is no more", async () => {
    room.remote.put("a", randomBytes(2 * MIB));
    room.peer.on("node.fs.read", ({ path, offset, length }) => {
      room.remote.put("a", randomBytes(2 * MIB));
      return {
        path,
        dataBase64: Buffer.alloc(length).toString("base64"),
        offset,
        length,
        size: 2 * MIB,
        mime: "text/plain",
        eof: false,
      };
    });
    expect(await room.fs("get", "worker-1:a", "b")).to.equal(123);
    expect(readdirSync(room.folder)).to.deep.equal([]);
  });

  it("brings an empty file", async () => {
    room.remote.put("a", Buffer.alloc(0));
    expect(await room.fs("get", "worker-1:a", "b")).to.equal(0);
    expect(readFileSync(room.local("b"))).to.have.length(0);
  });

  it("makes no file of a name that has to be a directory", async () => {
    writeFileSync(room.local("a"), "1");
    expect(await room.fs("put", "a", "worker-1:missing/")).to.equal(122);
    expect(room.shell.stderr.text).to.include("no such directory");
    expect(room.remote.files.size).to.equal(0);
  });

  it("puts it into a directory under its own name", async () => {
    mkdirSync(room.local("d"));
    room.remote.put("x/a", Buffer.from("1"));
    expect(await room.fs("get", "worker-1:x/a", "d")).to.equal(0);
    expect(readFileSync(room.local("d/a"), "utf8")).to.equal("1");
  });

  it("draws a bar on a terminal, and takes it away again", async () => {
    room.remote.put("a", Buffer.from("hello"));
    room.newShell({ stderrIsTerminal: true });
    expect(await room.fs("get", "worker-1:a")).to.equal(0);
    expect(room.shell.stderr.text)
      .to.include(`[${"-".repeat(24)}]   0%`)
      .and.match(/\r.\[K$/);
  });

  it("replaces no FIFO and no device, and what a link leads to instead of the link", async () => {
    room.remote.put("a", Buffer.from("hello"));
    execFileSync("mkfifo", [room.local("fifo")]);
    symlinkSync("/dev/null", room.local("null"));
    for (const name of ["fifo", "null"]) {
      expect(await room.fs("get", "worker-1:a", name)).to.equal(2);
      expect(room.shell.stderr.text).to.include("no regular file");
    }
    expect(lstatSync(room.local("fifo")).isFIFO()).to.equal(true);
    expect(lstatSync("/dev/null").isCharacterDevice()).to.equal(true);
    mkdirSync(room.local("d"));
    writeFileSync(room.local("d/file"), "old");
    symlinkSync("d/file", room.local("link"));
    expect(await room.fs("get", "worker-1:a", "link")).to.equal(0);
    expect(lstatSync(room.local("link")).isSymbolicLink()).to.equal(true);
    expect(readFileSync(room.local("d/file"), "utf8")).to.equal("hello");
    expect(readdirSync(room.local("d"))).to.deep.equal(["file"]);
  });

  it("leaves no empty part of what may not be read", async () => {
    room.remote.put("a", randomBytes(3 * MIB));
    room.remote.meet("read", new LemonError("permission_denied"));
    expect(await room.fs("get", "worker-1:a", "b")).to.equal(121);
    expect(readdirSync(room.folder)).to.deep.equal([]);
  });

  for (const [what, to, code, errno] of [
    ["has no folder", "none/b", "not_found", "ENOENT"],
    ["lies in a file", "file/b", "not_directory", "ENOTDIR"],
    ["has a name too long", `${"n".repeat(256)}/b`, "invalid_path", "ENAMETOOLONG"],
    ["is behind a link to itself", "self/b", "not_directory", "ELOOP"],
  ] as const) {
    it(`says why the local file can not be made that ${what}`, async () => {
      room.remote.put("a", Buffer.from("hello"));
      writeFileSync(room.local("file"), "");
      symlinkSync("self", room.local("self"));
      expect(await room.fs("get", "worker-1:a", to, "--json")).to.equal(1);
      const { error } = Object(room.shell.document);
      expect(error).to.include({ code, exitCode: 1, mutationMayHaveApplied: false });
      expect(error.details).to.deep.equal({ errno, where: "local" });
    });
  }

  it("says that the disk here is full, and goes on once there is space", async () => {
    await using disk = await smallDisk(2 * MIB);
    if (disk === null) return;
    const bytes = randomBytes(MIB + 9);
    room.remote.put("a", bytes);
    const to = join(disk.path, "b");
    disk.fill();
    expect(await room.fs("get", "worker-1:a", to, "--json")).to.equal(1);
    expect(Object(room.shell.document).error).to.include({ code: "no_space", exitCode: 1 });
    expect(existsSync(to)).to.equal(false);
    disk.free();
    expect(await room.fs("get", "worker-1:a", to)).to.equal(0);
    expect(readFileSync(to).equals(bytes)).to.equal(true);
  });
});
