/** Proves how directories are copied with all below them. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import { FsCommands } from "../../support/fs-commands.ts";

const MIB = 1_048_576;

describe("lemon fs put -r and get -r", () => {
  let room: FsCommands;
  beforeEach(async () => {
    room = await FsCommands.open();
  });
  afterEach(() => room[Symbol.asyncDispose]());

  it("bring it there and back, links left out and said so", async () => {
    mkdirSync(room.local("tree/below"), { recursive: true });
    writeFileSync(room.local("tree/a"), "1");
    writeFileSync(room.local("tree/below/.b"), "22");
    symlinkSync("a", room.local("tree/link"));
    expect(await room.fsAnew("put", "-r", "tree", "worker-1:copy", "--json")).to.equal(1);
    expect(room.shell.document).to.include({ files: 2, bytes: 3, leftOut: 1 });
    expect(room.shell.stderr.text).to.include("tree/link (symlink)");
    expect(room.remote.bytes("copy/below/.b")?.toString()).to.equal("22");
    room.newShell();
    expect(await room.fsAnew("get", "-r", "worker-1:copy", "back", "--json")).to.equal(0);
    expect(room.shell.document).to.include({ files: 2, bytes: 3, leftOut: 0 });
    expect(readFileSync(room.local("back/a"), "utf8")).to.equal("1");
    expect(readFileSync(room.local("back/below/.b"), "utf8")).to.equal("22");
  });

  it("put it below a directory that is there", async () => {
    mkdirSync(room.local("tree"));
    writeFileSync(room.local("tree/a"), "1");
    room.remote.directories.add("d");
    expect(await room.fsAnew("put", "-r", "tree", "worker-1:d")).to.equal(0);
    expect(room.remote.bytes("d/tree/a")?.toString()).to.equal("1");
  });

  for (const name of ["..", "../x", "a/b", "", "."]) {
    it(`make nothing elsewhere when a node names an entry ${JSON.stringify(name)}`, async () => {
      room.peer.on("node.fs.list", ({ path }) => ({
        path,
        entries: [
          {
            name,
            type: "regular",
            size: 0,
            mtimeMs: 1,
            mode: 0,
            mime: "",
            readable: true,
            writable: true,
          },
        ],
        limit: 500,
        truncated: false,
      }));
      expect(await room.fsAnew("get", "-r", "worker-1:d", "back")).to.equal(1);
      expect(readdirSync(room.local("back"))).to.deep.equal([]);
    });
  }

  it("say what could not be listed", async () => {
    room.peer.on("node.fs.list", ({ path }) => ({
      path,
      entries: [{ name: "x", error: "permission_denied" }],
      limit: 500,
      truncated: true,
    }));
    expect(await room.fsAnew("get", "-r", "worker-1:d", "back", "--json")).to.equal(1);
    expect(room.shell.document).to.include({ files: 0, leftOut: 2 });
  });

  it("put goes on after an interruption: what is complete there is not sent again", async () => {
    mkdirSync(room.local("tree/b"), { recursive: true });
    writeFileSync(room.local("tree/a"), randomBytes(MIB + 3));
    writeFileSync(room.local("tree/b/large"), randomBytes(2 * MIB));
    writeFileSync(room.local("tree/c"), "3");
    // A cut between two files, and one within a file.
    room.remote.meet("write", null, null, null, new LemonError("permission_denied"));
    expect(await room.fsAnew("put", "-r", "tree", "worker-1:t")).to.equal(121);
    expect(room.remote.bytes("t/b/large")).to.equal(null);
    const sent = room.peer.count("node.fs.write");
    expect(await room.fsAnew("put", "-r", "tree", "worker-1:t2", "--json")).to.equal(0);
    expect(room.shell.document).to.include({ files: 3, alreadyThere: 0 });
    const all = room.peer.count("node.fs.write") - sent;
    room.remote.directories.delete("t");
    expect(await room.fsAnew("put", "-r", "tree", "worker-1:t", "--json")).to.equal(0);
    expect(room.shell.document).to.include({ files: 2, alreadyThere: 1, leftOut: 0 });
    expect(room.peer.count("node.fs.write") - sent - all).to.equal(2);
    for (const name of ["a", "b/large", "c"]) {
      const here = readFileSync(room.local(`tree/${name}`));
      expect(room.remote.bytes(`t/${name}`)?.equals(here)).to.equal(true);
    }
    room.remote.directories.delete("t");
    expect(await room.fsAnew("put", "-r", "tree", "worker-1:t")).to.equal(0);
    expect(room.shell.stdout.text).to.include("0 files, 0 B; 3 were there already");
  });

  it("put leaves what is there and differs, says so, and takes the rest", async () => {
    mkdirSync(room.local("tree"));
    for (const name of ["a", "b", "c", "d"])
      writeFileSync(room.local(`tree/${name}`), "same length");
    room.remote.put("t/a", Buffer.from("other bytes"));
    room.remote.put("t/b", Buffer.from("longer than the other"));
    room.remote.directories.add("t/c");
    expect(await room.fsAnew("put", "-r", "tree", "worker-1:t", "--json")).to.equal(1);
    expect(room.shell.document).to.include({ files: 1, alreadyThere: 0, leftOut: 3 });
    expect(room.shell.stderr.text)
      .to.include("tree/a (already_exists and differs)")
      .and.include("tree/c (is_directory");
    expect(room.remote.bytes("t/a")?.toString()).to.equal("other bytes");
    expect(room.remote.bytes("t/d")?.toString()).to.equal("same length");
    expect(room.remote.bytes("t/c/c")).to.equal(null);
    room.remote.directories.delete("t");
    room.remote.directories.delete("t/c");
    const before = room.remote.files.get("t/d");
    expect(await room.fsAnew("put", "-r", "--overwrite", "tree", "worker-1:t", "--json")).to.equal(
      0,
    );
    expect(room.shell.document).to.include({ files: 3, alreadyThere: 1, leftOut: 0 });
    expect(room.remote.bytes("t/a")?.toString()).to.equal("same length");
    expect(room.remote.files.get("t/d")).to.equal(before);
  });

  it("put replaces what it may not read when it is told to", async () => {
    mkdirSync(room.local("tree"));
    writeFileSync(room.local("tree/a"), "new");
    room.remote.put("t/a", Buffer.from("old"));
    room.remote.meet("read", new LemonError("permission_denied"));
    expect(await room.fsAnew("put", "-r", "--overwrite", "tree", "worker-1:t")).to.equal(0);
    expect(room.remote.bytes("t/a")?.toString()).to.equal("new");
  });

  it("get ends when it can not make a file here: that is no refusal of the node's", async () => {
    room.remote.put("t/a", Buffer.from("1"));
    symlinkSync("self", room.local("self"));
    expect(await room.fsAnew("get", "-r", "worker-1:t", "self", "--json")).to.equal(1);
    expect(Object(room.shell.document).error).to.include({ code: "not_directory", exitCode: 1 });
  });

  it("put names what has no name on a node, and waits for nothing special", async () => {
    mkdirSync(room.local("tree"));
    writeFileSync(Buffer.concat([Buffer.from(`${room.local("tree")}/x`), Buffer.of(0xff)]), "1");
    execFileSync("mkfifo", [room.local("tree/fifo")]);
    writeFileSync(room.local("tree/z"), "1");
    expect(await room.fsAnew("put", "-r", "tree", "worker-1:t", "--json")).to.equal(1);
    expect(room.shell.document).to.include({ files: 1, leftOut: 2 });
    expect(room.shell.stderr.text).to.include("not valid UTF-8").and.include("tree/fifo (special)");
  });

  it("get leaves out what may not be read, says so, and takes the rest", async () => {
    room.remote.put("t/a", Buffer.from("1"));
    room.remote.put("t/b", Buffer.from("2"));
    room.remote.meet("read", new LemonError("permission_denied"));
    expect(await room.fsAnew("get", "-r", "worker-1:t", "back", "--json")).to.equal(1);
    expect(room.shell.document).to.include({ files: 1, leftOut: 1 });
    expect(room.shell.stderr.text).to.include("t/a (permission_denied)");
    expect(readdirSync(room.local("back"))).to.deep.equal(["b"]);
  });
});
