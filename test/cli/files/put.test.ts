/** Proves how `lemon fs put` sends a file: whole, nothing twice, or not at all. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { truncateSync, utimesSync, writeFileSync } from "node:fs";
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import { FsCommands } from "../../support/fs-commands.ts";
import { NODE_ID } from "../../support/node-rows.ts";

const MIB = 1_048_576;

describe("lemon fs put", () => {
  const bytes = randomBytes(3 * MIB + 5);
  let room: FsCommands;
  beforeEach(async () => {
    room = await FsCommands.open();
    writeFileSync(room.local("a.bin"), bytes);
  });
  afterEach(() => room[Symbol.asyncDispose]());

  const left = () => [...room.remote.files.keys()].filter((name) => name.includes(".lemon-put-"));

  it("brings a file of several chunks, bit for bit, through cuts before and after its writes", async () => {
    room.remote.meet("write", "before", null, "after", "after");
    expect(await room.fs("put", "a.bin", "worker-1:dir/b.bin", "-p")).to.equal(0);
    expect(room.remote.bytes("dir/b.bin")?.equals(bytes)).to.equal(true);
    expect(left()).to.deep.equal([]);
  });

  it("sends nothing twice that a lost answer was about", async () => {
    room.remote.meet("write", "after", "after", "after", "after");
    expect(await room.fs("put", "a.bin", "worker-1:b")).to.equal(0);
    expect(room.peer.count("node.fs.write")).to.equal(4);
    expect(room.remote.bytes("b")?.equals(bytes)).to.equal(true);
  });

  it("settles a lost answer of the last step by looking", async () => {
    room.remote.meet("move", "after");
    expect(await room.fs("put", "a.bin", "worker-1:b")).to.equal(0);
    expect(room.peer.count("node.fs.move")).to.equal(1);
  });

  it("says that the last step is unknown when looking does not settle it", async () => {
    room.remote.meet("move", "before");
    expect(await room.fs("put", "a.bin", "worker-1:b", "--json")).to.equal(125);
    expect(Object(room.shell.document).error).to.include({ settle: `lemon fs stat ${NODE_ID}:b` });
    room.newShell();
    expect(await room.fs("put", "a.bin", "worker-1:b", "--json")).to.equal(0);
    expect(room.shell.document).to.include({ resumedAt: bytes.length });
    expect(room.remote.bytes("b")?.equals(bytes)).to.equal(true);
  });

  it("goes on with what an earlier one left, and with nothing of another file", async () => {
    room.remote.meet("write", null, null, new LemonError("permission_denied"));
    expect(await room.fs("put", "a.bin", "worker-1:b")).to.equal(121);
    expect(room.remote.bytes("b")).to.equal(null);
    expect(left()).to.have.length(1);
    room.newShell();
    expect(await room.fs("put", "a.bin", "worker-1:b", "--json")).to.equal(0);
    expect(room.shell.document).to.include({ resumedAt: 2 * MIB });
    expect(room.remote.bytes("b")?.equals(bytes)).to.equal(true);
    expect(left()).to.deep.equal([]);

    room.remote.meet("write", null, new LemonError("permission_denied"));
    expect(await room.fs("put", "a.bin", "worker-1:c")).to.equal(121);
    utimesSync(room.local("a.bin"), 1, 1);
    room.newShell();
    expect(await room.fs("put", "a.bin", "worker-1:c", "--json")).to.equal(0);
    expect(room.shell.document).to.include({ resumedAt: 0 });
  });

  it("replaces what is there in one step, and only when it is told to", async () => {
    room.remote.put("b", Buffer.from("old"));
    expect(await room.fs("put", "a.bin", "worker-1:b")).to.equal(123);
    expect(room.peer.count("node.fs.write")).to.equal(0);
    expect(room.remote.bytes("b")?.toString()).to.equal("old");
    expect(await room.fs("put", "a.bin", "worker-1:b", "--overwrite")).to.equal(0);
    expect(room.remote.bytes("b")?.equals(bytes)).to.equal(true);
  });

  it("puts it into a directory under its own name, and an empty file too", async () => {
    room.remote.directories.add("d");
    writeFileSync(room.local("empty"), "");
    expect(await room.fs("put", "empty", "worker-1:d")).to.equal(0);
    expect(room.remote.bytes("d/empty")).to.have.length(0);
  });

  for (const code of ["already_exists", "is_directory", "permission_denied"] as const) {
    it(`leaves no part of a copy whose place is refused in the end (${code})`, async () => {
      room.remote.meet("move", new LemonError(code));
      expect(await room.fs("put", "a.bin", "worker-1:b")).to.equal(exitCodes[code]);
      expect(left()).to.deep.equal([]);
      expect(room.shell.stderr.text).to.not.include("may still be");
    });
  }
  const exitCodes = { already_exists: 123, is_directory: 121, permission_denied: 121 };

  it("keeps the part when the last step was refused for now", async () => {
    room.remote.meet("move", new LemonError("read_only_filesystem"));
    expect(await room.fs("put", "a.bin", "worker-1:b")).to.equal(121);
    expect(left()).to.have.length(1);
    expect(room.peer.count("node.fs.delete")).to.equal(0);
  });

  it("says at once that the node's disk is full, and keeps what is there", async () => {
    room.remote.meet("write", null, new LemonError("no_space"));
    expect(await room.fs("put", "a.bin", "worker-1:b")).to.equal(121);
    expect(room.peer.count("node.fs.write")).to.equal(2);
    expect(left()).to.have.length(1);
  });

  it("keeps a part that is not what it sent any more", async () => {
    room.peer.on("node.fs.move", ({ path }) => {
      room.remote.put(path, Buffer.from("another's"));
      throw new LemonError("already_exists");
    });
    expect(await room.fs("put", "a.bin", "worker-1:b")).to.equal(123);
    expect(left()).to.have.length(1);
    expect(room.peer.count("node.fs.delete")).to.equal(0);
  });

  it("says so when it can not remove the part", async () => {
    room.remote.meet("move", new LemonError("already_exists"));
    room.remote.meet("delete", new LemonError("stale_preview"));
    expect(await room.fs("put", "a.bin", "worker-1:b")).to.equal(123);
    expect(room.shell.stderr.text).to.include("may still be beside its place");
  });

  for (const [what, change] of [
    ["is cut", () => truncateSync(room.local("a.bin"), MIB)],
    ["is touched", () => utimesSync(room.local("a.bin"), 1, 1)],
  ] as const) {
    it(`leaves no part of a file that ${what} while it is sent`, async () => {
      room.remote.whenWritten = change;
      expect(await room.fs("put", "a.bin", "worker-1:b")).to.equal(123);
      expect(room.shell.stderr.text).to.include("changed while it was read");
      expect(left()).to.deep.equal([]);
    });
  }

  it("refuses a part that somebody else changes meanwhile", async () => {
    room.remote.meet("write", null, new LemonError("revision_conflict"));
    expect(await room.fs("put", "a.bin", "worker-1:b")).to.equal(123);
    expect(room.peer.count("node.fs.write")).to.equal(2);
    expect(room.remote.bytes("b")).to.equal(null);
  });

  it("waits for no other end of a FIFO", async () => {
    execFileSync("mkfifo", [room.local("fifo")]);
    expect(await room.fs("put", "fifo", "worker-1:b")).to.equal(2);
    expect(room.shell.stderr.text).to.include("only a regular file");
  });

  it("refuses what is no regular file before anything is sent", async () => {
    expect(await room.fs("put", ".", "worker-1:b")).to.equal(2);
    expect(await room.fs("put", "none", "worker-1:b")).to.equal(2);
    expect(await room.fs("put", "a.bin/none", "worker-1:b")).to.equal(2);
    expect(await room.fs("put", "-r", "none", "worker-1:b", "--json")).to.equal(2);
    expect(room.shell.stderr.text).to.include("no such file");
    expect(room.peer.requests).to.deep.equal([]);
  });
});
