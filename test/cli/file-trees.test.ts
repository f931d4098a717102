import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { LemonError } from "../../protocol/errors.ts";
import { type FsCommands, fsCommands } from "../support/fs-commands.ts";
import type { TestShell } from "../support/test-shell.ts";

const MIB = 1_048_576;

describe("lemon fs put -r and get -r", () => {
  let room: FsCommands;
  let peer: FsCommands["peer"];
  let remote: FsCommands["remote"];
  let folder: FsCommands["folder"];
  let newShell: FsCommands["newShell"];
  let shell: TestShell;

  beforeEach(async () => {
    room = await fsCommands();
    ({ peer, remote, folder, newShell } = room);
    shell = newShell();
  });
  afterEach(() => room[Symbol.asyncDispose]());

  const local = (name: string): string => join(folder.path, name);
  const fs = (...words: readonly string[]): Promise<number> => {
    shell = newShell();
    return shell.run("fs", ...words);
  };

  it("bring it there and back, links left out and said so", async () => {
    mkdirSync(local("tree/below"), { recursive: true });
    writeFileSync(local("tree/a"), "1");
    writeFileSync(local("tree/below/.b"), "22");
    symlinkSync("a", local("tree/link"));
    expect(await fs("put", "-r", "tree", "worker-1:copy", "--json")).to.equal(1);
    expect(shell.document).to.include({ files: 2, bytes: 3, leftOut: 1 });
    expect(shell.stderr.text).to.include("tree/link (symlink)");
    expect(remote.bytes("copy/below/.b")?.toString()).to.equal("22");
    shell = newShell();
    expect(await fs("get", "-r", "worker-1:copy", "back", "--json")).to.equal(0);
    expect(shell.document).to.include({ files: 2, bytes: 3, leftOut: 0 });
    expect(readFileSync(local("back/a"), "utf8")).to.equal("1");
    expect(readFileSync(local("back/below/.b"), "utf8")).to.equal("22");
  });

  it("put it below a directory that is there", async () => {
    mkdirSync(local("tree"));
    writeFileSync(local("tree/a"), "1");
    remote.directories.add("d");
    expect(await fs("put", "-r", "tree", "worker-1:d")).to.equal(0);
    expect(remote.bytes("d/tree/a")?.toString()).to.equal("1");
  });

  for (const name of ["..", "../x", "a/b", "", "."]) {
    it(`make nothing elsewhere when a node names an entry ${JSON.stringify(name)}`, async () => {
      peer.on("node.fs.list", ({ path }) => ({
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
      expect(await fs("get", "-r", "worker-1:d", "back")).to.equal(1);
      expect(readdirSync(local("back"))).to.deep.equal([]);
    });
  }

  it("say what could not be listed", async () => {
    peer.on("node.fs.list", ({ path }) => ({
      path,
      entries: [{ name: "x", error: "permission_denied" }],
      limit: 500,
      truncated: true,
    }));
    expect(await fs("get", "-r", "worker-1:d", "back", "--json")).to.equal(1);
    expect(shell.document).to.include({ files: 0, leftOut: 2 });
  });

  it("put goes on after an interruption: what is complete there is not sent again", async () => {
    mkdirSync(local("tree/b"), { recursive: true });
    writeFileSync(local("tree/a"), randomBytes(MIB + 3));
    writeFileSync(local("tree/b/large"), randomBytes(2 * MIB));
    writeFileSync(local("tree/c"), "3");
    // A cut between two files, and one within a file.
    remote.meet("write", null, null, null, new LemonError("permission_denied"));
    expect(await fs("put", "-r", "tree", "worker-1:t")).to.equal(121);
    expect(remote.bytes("t/b/large")).to.equal(null);
    const sent = peer.count("node.fs.write");
    expect(await fs("put", "-r", "tree", "worker-1:t2", "--json")).to.equal(0);
    expect(shell.document).to.include({ files: 3, alreadyThere: 0 });
    const all = peer.count("node.fs.write") - sent;
    remote.directories.delete("t");
    expect(await fs("put", "-r", "tree", "worker-1:t", "--json")).to.equal(0);
    expect(shell.document).to.include({ files: 2, alreadyThere: 1, leftOut: 0 });
    expect(peer.count("node.fs.write") - sent - all).to.equal(2);
    for (const name of ["a", "b/large", "c"]) {
      const here = readFileSync(local(`tree/${name}`));
      expect(remote.bytes(`t/${name}`)?.equals(here)).to.equal(true);
    }
    remote.directories.delete("t");
    expect(await fs("put", "-r", "tree", "worker-1:t")).to.equal(0);
    expect(shell.stdout.text).to.include("0 files, 0 B; 3 were there already");
  });

  it("put leaves what is there and differs, says so, and takes the rest", async () => {
    mkdirSync(local("tree"));
    for (const name of ["a", "b", "c", "d"]) writeFileSync(local(`tree/${name}`), "same length");
    remote.put("t/a", Buffer.from("other bytes"));
    remote.put("t/b", Buffer.from("longer than the other"));
    remote.directories.add("t/c");
    expect(await fs("put", "-r", "tree", "worker-1:t", "--json")).to.equal(1);
    expect(shell.document).to.include({ files: 1, alreadyThere: 0, leftOut: 3 });
    expect(shell.stderr.text)
      .to.include("tree/a (already_exists and differs)")
      .and.include("tree/c (is_directory");
    expect(remote.bytes("t/a")?.toString()).to.equal("other bytes");
    expect(remote.bytes("t/d")?.toString()).to.equal("same length");
    expect(remote.bytes("t/c/c")).to.equal(null);
    remote.directories.delete("t");
    remote.directories.delete("t/c");
    const before = remote.files.get("t/d");
    expect(await fs("put", "-r", "--overwrite", "tree", "worker-1:t", "--json")).to.equal(0);
    expect(shell.document).to.include({ files: 3, alreadyThere: 1, leftOut: 0 });
    expect(remote.bytes("t/a")?.toString()).to.equal("same length");
    expect(remote.files.get("t/d")).to.equal(before);
  });

  it("put replaces what it may not read when it is told to", async () => {
    mkdirSync(local("tree"));
    writeFileSync(local("tree/a"), "new");
    remote.put("t/a", Buffer.from("old"));
    remote.meet("read", new LemonError("permission_denied"));
    expect(await fs("put", "-r", "--overwrite", "tree", "worker-1:t")).to.equal(0);
    expect(remote.bytes("t/a")?.toString()).to.equal("new");
  });

  it("get ends when it can not make a file here: that is no refusal of the node's", async () => {
    remote.put("t/a", Buffer.from("1"));
    symlinkSync("self", local("self"));
    expect(await fs("get", "-r", "worker-1:t", "self", "--json")).to.equal(1);
    expect(Object(shell.document).error).to.include({ code: "not_directory", exitCode: 1 });
  });

  it("put names what has no name on a node, and waits for nothing special", async () => {
    mkdirSync(local("tree"));
    writeFileSync(Buffer.concat([Buffer.from(`${local("tree")}/x`), Buffer.of(0xff)]), "1");
    execFileSync("mkfifo", [local("tree/fifo")]);
    writeFileSync(local("tree/z"), "1");
    expect(await fs("put", "-r", "tree", "worker-1:t", "--json")).to.equal(1);
    expect(shell.document).to.include({ files: 1, leftOut: 2 });
    expect(shell.stderr.text).to.include("not valid UTF-8").and.include("tree/fifo (special)");
  });

  it("get leaves out what may not be read, says so, and takes the rest", async () => {
    remote.put("t/a", Buffer.from("1"));
    remote.put("t/b", Buffer.from("2"));
    remote.meet("read", new LemonError("permission_denied"));
    expect(await fs("get", "-r", "worker-1:t", "back", "--json")).to.equal(1);
    expect(shell.document).to.include({ files: 1, leftOut: 1 });
    expect(shell.stderr.text).to.include("t/a (permission_denied)");
    expect(readdirSync(local("back"))).to.deep.equal(["b"]);
  });
});
