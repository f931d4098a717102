import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { LemonError } from "../../protocol/errors.ts";
import { type FsCommands, fsCommands } from "../support/fs-commands.ts";
import { NODE_ID } from "../support/node-rows.ts";
import { smallDisk } from "../support/small-disk.ts";
import type { TestShell } from "../support/test-shell.ts";

const MIB = 1_048_576;

describe("lemon fs ls, stat, cat, get and put", () => {
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
  const fs = (...words: readonly string[]): Promise<number> => shell.run("fs", ...words);

  describe("ls and stat", () => {
    it("show what is there, and nothing of it can drive the terminal", async () => {
      remote.put("a\u001b[31m\n.txt", Buffer.from("12345"));
      expect(await fs("ls", "worker-1:")).to.equal(0);
      expect(shell.stdout.text).to.match(
        /^- {2}0644 {2}5 B {2}\S+Z {2}a\\u\{1b\}\[31m\\u\{a\}\.txt\n$/,
      );
      expect(peer.requests.at(-1)?.params).to.deep.include({ path: ".", showHidden: false });
    });

    it("say what could not be looked at, and that there is more", async () => {
      peer.on("node.fs.list", ({ path }) => ({
        path,
        entries: [{ name: "x", error: "permission_denied" }],
        limit: 500,
        truncated: true,
      }));
      expect(await fs("ls", "-a", "worker-1:d")).to.equal(0);
      expect(shell.stdout.text).to.include("permission_denied  x");
      expect(shell.stderr.text).to.include("only the first 500");
      expect(peer.requests.at(-1)?.params).to.deep.include({ path: "d", showHidden: true });
    });

    it("print the answer as it came with --json", async () => {
      remote.put("a", Buffer.from("12345"));
      expect(await fs("stat", `${NODE_ID}:a`, "--json")).to.equal(0);
      expect(shell.document).to.include({ path: "a", size: 5, type: "regular" });
    });

    it("end with 122 for what is not there, and 121 for what is refused", async () => {
      expect(await fs("stat", "worker-1:none")).to.equal(122);
      expect(await fs("stat", "worker-2:none")).to.equal(122);
      peer.on("node.fs.stat", () => {
        throw new LemonError("path_not_allowed");
      });
      expect(await fs("stat", "worker-1:/etc")).to.equal(121);
    });

    for (const place of [
      "worker-1",
      ":a",
      "worker-1:a/../b",
      "worker-1:\0",
      `w:${"a".repeat(4_097)}`,
    ]) {
      it(`refuse ${JSON.stringify(place.slice(0, 20))} before anything is sent`, async () => {
        expect(await fs("stat", place)).to.equal(2);
        expect(peer.requests).to.deep.equal([]);
      });
    }
  });

  describe("cat", () => {
    it("writes the bytes and nothing else, over cuts", async () => {
      const bytes = randomBytes(3 * MIB + 17);
      remote.put("a", bytes);
      remote.meet("read", null, "before", null, "after");
      expect(await fs("cat", "worker-1:a")).to.equal(0);
      expect(shell.stdout.bytes.equals(bytes)).to.equal(true);
    });

    it("is one document with --json", async () => {
      remote.put("a", Buffer.from("hello"));
      expect(await fs("cat", "worker-1:a", "--json")).to.equal(0);
      expect(shell.document).to.include({ size: 5, dataBase64: "aGVsbG8=" });
    });

    it("refuses a directory", async () => {
      expect(await fs("cat", "worker-1:.")).to.equal(121);
      expect(shell.stderr.text).to.include("directory");
    });
  });

  describe("get", () => {
    it("brings a file of several chunks, bit for bit, through three cuts", async () => {
      const bytes = randomBytes(6 * MIB + 1);
      remote.put("dir/a.bin", bytes);
      remote.meet("read", null, "before", null, "after", null, "before");
      expect(await fs("get", "worker-1:dir/a.bin")).to.equal(0);
      expect(readFileSync(local("a.bin")).equals(bytes)).to.equal(true);
      expect(readdirSync(folder.path)).to.deep.equal(["a.bin"]);
      expect(shell.stderr.text).to.not.include("\r");
    });

    it("goes on with what an earlier one left, and with nothing of another revision", async () => {
      const bytes = randomBytes(3 * MIB);
      remote.put("a", bytes);
      const parts = () => readdirSync(folder.path).filter((name) => name.startsWith(".lemon-get-"));
      remote.meet("read", null, null, new LemonError("permission_denied"));
      expect(await fs("get", "worker-1:a", "b")).to.equal(121);
      expect(parts()).to.have.length(1);
      expect(existsSync(local("b"))).to.equal(false);
      shell = newShell();
      expect(await fs("get", "worker-1:a", "b", "--json")).to.equal(0);
      expect(shell.document).to.include({ size: 3 * MIB, resumedAt: 2 * MIB });
      expect(readFileSync(local("b")).equals(bytes)).to.equal(true);
      expect(parts()).to.deep.equal([]);

      remote.meet("read", null, null, new LemonError("permission_denied"));
      expect(await fs("get", "worker-1:a", "c")).to.equal(121);
      const newer = randomBytes(3 * MIB);
      remote.put("a", newer);
      shell = newShell();
      expect(await fs("get", "worker-1:a", "c", "--json")).to.equal(0);
      expect(shell.document).to.include({ resumedAt: 0 });
      expect(readFileSync(local("c")).equals(newer)).to.equal(true);
    });

    it("mixes no two revisions, and leaves no part of what is no more", async () => {
      remote.put("a", randomBytes(2 * MIB));
      peer.on("node.fs.read", ({ path, offset, length }) => {
        remote.put("a", randomBytes(2 * MIB));
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
      expect(await fs("get", "worker-1:a", "b")).to.equal(123);
      expect(readdirSync(folder.path)).to.deep.equal([]);
    });

    it("brings an empty file", async () => {
      remote.put("a", Buffer.alloc(0));
      expect(await fs("get", "worker-1:a", "b")).to.equal(0);
      expect(readFileSync(local("b"))).to.have.length(0);
    });

    it("makes no file of a name that has to be a directory", async () => {
      writeFileSync(local("a"), "1");
      expect(await fs("put", "a", "worker-1:missing/")).to.equal(122);
      expect(shell.stderr.text).to.include("no such directory");
      expect(remote.files.size).to.equal(0);
    });

    it("puts it into a directory under its own name", async () => {
      mkdirSync(local("d"));
      remote.put("x/a", Buffer.from("1"));
      expect(await fs("get", "worker-1:x/a", "d")).to.equal(0);
      expect(readFileSync(local("d/a"), "utf8")).to.equal("1");
    });

    it("draws a bar on a terminal, and takes it away again", async () => {
      remote.put("a", Buffer.from("hello"));
      shell = newShell({ stderrIsTerminal: true });
      expect(await fs("get", "worker-1:a")).to.equal(0);
      expect(shell.stderr.text)
        .to.include(`[${"-".repeat(24)}]   0%`)
        .and.match(/\r.\[K$/);
    });

    it("replaces no FIFO and no device, and what a link leads to instead of the link", async () => {
      remote.put("a", Buffer.from("hello"));
      execFileSync("mkfifo", [local("fifo")]);
      symlinkSync("/dev/null", local("null"));
      for (const name of ["fifo", "null"]) {
        expect(await fs("get", "worker-1:a", name)).to.equal(2);
        expect(shell.stderr.text).to.include("no regular file");
      }
      expect(lstatSync(local("fifo")).isFIFO()).to.equal(true);
      expect(lstatSync("/dev/null").isCharacterDevice()).to.equal(true);
      mkdirSync(local("d"));
      writeFileSync(local("d/file"), "old");
      symlinkSync("d/file", local("link"));
      expect(await fs("get", "worker-1:a", "link")).to.equal(0);
      expect(lstatSync(local("link")).isSymbolicLink()).to.equal(true);
      expect(readFileSync(local("d/file"), "utf8")).to.equal("hello");
      expect(readdirSync(local("d"))).to.deep.equal(["file"]);
    });

    it("leaves no empty part of what may not be read", async () => {
      remote.put("a", randomBytes(3 * MIB));
      remote.meet("read", new LemonError("permission_denied"));
      expect(await fs("get", "worker-1:a", "b")).to.equal(121);
      expect(readdirSync(folder.path)).to.deep.equal([]);
    });

    for (const [what, to, code, errno] of [
      ["has no folder", "none/b", "not_found", "ENOENT"],
      ["lies in a file", "file/b", "not_directory", "ENOTDIR"],
      ["has a name too long", `${"n".repeat(256)}/b`, "invalid_path", "ENAMETOOLONG"],
      ["is behind a link to itself", "self/b", "not_directory", "ELOOP"],
    ] as const) {
      it(`says why the local file can not be made that ${what}`, async () => {
        remote.put("a", Buffer.from("hello"));
        writeFileSync(local("file"), "");
        symlinkSync("self", local("self"));
        expect(await fs("get", "worker-1:a", to, "--json")).to.equal(1);
        const { error } = Object(shell.document);
        expect(error).to.include({ code, exitCode: 1, mutationMayHaveApplied: false });
        expect(error.details).to.deep.equal({ errno, where: "local" });
      });
    }
  });

  it("get says that the disk here is full, and goes on once there is space", async () => {
    await using disk = await smallDisk(2 * MIB);
    if (disk === null) return;
    const bytes = randomBytes(MIB + 9);
    remote.put("a", bytes);
    const to = join(disk.path, "b");
    disk.fill();
    expect(await fs("get", "worker-1:a", to, "--json")).to.equal(1);
    expect(Object(shell.document).error).to.include({ code: "no_space", exitCode: 1 });
    expect(existsSync(to)).to.equal(false);
    disk.free();
    expect(await fs("get", "worker-1:a", to)).to.equal(0);
    expect(readFileSync(to).equals(bytes)).to.equal(true);
  });

  describe("put", () => {
    const bytes = randomBytes(3 * MIB + 5);
    beforeEach(() => writeFileSync(local("a.bin"), bytes));
    const left = () => [...remote.files.keys()].filter((name) => name.includes(".lemon-put-"));

    it("brings a file of several chunks, bit for bit, through cuts before and after its writes", async () => {
      remote.meet("write", "before", null, "after", "after");
      expect(await fs("put", "a.bin", "worker-1:dir/b.bin", "-p")).to.equal(0);
      expect(remote.bytes("dir/b.bin")?.equals(bytes)).to.equal(true);
      expect(left()).to.deep.equal([]);
    });

    it("sends nothing twice that a lost answer was about", async () => {
      remote.meet("write", "after", "after", "after", "after");
      expect(await fs("put", "a.bin", "worker-1:b")).to.equal(0);
      expect(peer.count("node.fs.write")).to.equal(4);
      expect(remote.bytes("b")?.equals(bytes)).to.equal(true);
    });

    it("settles a lost answer of the last step by looking", async () => {
      remote.meet("move", "after");
      expect(await fs("put", "a.bin", "worker-1:b")).to.equal(0);
      expect(peer.count("node.fs.move")).to.equal(1);
    });

    it("says that the last step is unknown when looking does not settle it", async () => {
      remote.meet("move", "before");
      expect(await fs("put", "a.bin", "worker-1:b", "--json")).to.equal(125);
      expect(Object(shell.document).error).to.include({ settle: `lemon fs stat ${NODE_ID}:b` });
      shell = newShell();
      expect(await fs("put", "a.bin", "worker-1:b", "--json")).to.equal(0);
      expect(shell.document).to.include({ resumedAt: bytes.length });
      expect(remote.bytes("b")?.equals(bytes)).to.equal(true);
    });

    it("goes on with what an earlier one left, and with nothing of another file", async () => {
      remote.meet("write", null, null, new LemonError("permission_denied"));
      expect(await fs("put", "a.bin", "worker-1:b")).to.equal(121);
      expect(remote.bytes("b")).to.equal(null);
      expect(left()).to.have.length(1);
      shell = newShell();
      expect(await fs("put", "a.bin", "worker-1:b", "--json")).to.equal(0);
      expect(shell.document).to.include({ resumedAt: 2 * MIB });
      expect(remote.bytes("b")?.equals(bytes)).to.equal(true);
      expect(left()).to.deep.equal([]);

      remote.meet("write", null, new LemonError("permission_denied"));
      expect(await fs("put", "a.bin", "worker-1:c")).to.equal(121);
      utimesSync(local("a.bin"), 1, 1);
      shell = newShell();
      expect(await fs("put", "a.bin", "worker-1:c", "--json")).to.equal(0);
      expect(shell.document).to.include({ resumedAt: 0 });
    });

    it("replaces what is there in one step, and only when it is told to", async () => {
      remote.put("b", Buffer.from("old"));
      expect(await fs("put", "a.bin", "worker-1:b")).to.equal(123);
      expect(peer.count("node.fs.write")).to.equal(0);
      expect(remote.bytes("b")?.toString()).to.equal("old");
      expect(await fs("put", "a.bin", "worker-1:b", "--overwrite")).to.equal(0);
      expect(remote.bytes("b")?.equals(bytes)).to.equal(true);
    });

    it("puts it into a directory under its own name, and an empty file too", async () => {
      remote.directories.add("d");
      writeFileSync(local("empty"), "");
      expect(await fs("put", "empty", "worker-1:d")).to.equal(0);
      expect(remote.bytes("d/empty")).to.have.length(0);
    });

    for (const code of ["already_exists", "is_directory", "permission_denied"] as const) {
      it(`leaves no part of a copy whose place is refused in the end (${code})`, async () => {
        remote.meet("move", new LemonError(code));
        expect(await fs("put", "a.bin", "worker-1:b")).to.equal(exitCodes[code]);
        expect(left()).to.deep.equal([]);
        expect(shell.stderr.text).to.not.include("may still be");
      });
    }
    const exitCodes = { already_exists: 123, is_directory: 121, permission_denied: 121 };

    it("keeps the part when the last step was refused for now", async () => {
      remote.meet("move", new LemonError("read_only_filesystem"));
      expect(await fs("put", "a.bin", "worker-1:b")).to.equal(121);
      expect(left()).to.have.length(1);
      expect(peer.count("node.fs.delete")).to.equal(0);
    });

    it("says at once that the node's disk is full, and keeps what is there", async () => {
      remote.meet("write", null, new LemonError("no_space"));
      expect(await fs("put", "a.bin", "worker-1:b")).to.equal(121);
      expect(peer.count("node.fs.write")).to.equal(2);
      expect(left()).to.have.length(1);
    });

    it("keeps a part that is not what it sent any more", async () => {
      peer.on("node.fs.move", ({ path }) => {
        remote.put(path, Buffer.from("another's"));
        throw new LemonError("already_exists");
      });
      expect(await fs("put", "a.bin", "worker-1:b")).to.equal(123);
      expect(left()).to.have.length(1);
      expect(peer.count("node.fs.delete")).to.equal(0);
    });

    it("says so when it can not remove the part", async () => {
      remote.meet("move", new LemonError("already_exists"));
      remote.meet("delete", new LemonError("stale_preview"));
      expect(await fs("put", "a.bin", "worker-1:b")).to.equal(123);
      expect(shell.stderr.text).to.include("may still be beside its place");
    });

    for (const [what, change] of [
      ["is cut", () => truncateSync(local("a.bin"), MIB)],
      ["is touched", () => utimesSync(local("a.bin"), 1, 1)],
    ] as const) {
      it(`leaves no part of a file that ${what} while it is sent`, async () => {
        remote.whenWritten = change;
        expect(await fs("put", "a.bin", "worker-1:b")).to.equal(123);
        expect(shell.stderr.text).to.include("changed while it was read");
        expect(left()).to.deep.equal([]);
      });
    }

    it("refuses a part that somebody else changes meanwhile", async () => {
      remote.meet("write", null, new LemonError("revision_conflict"));
      expect(await fs("put", "a.bin", "worker-1:b")).to.equal(123);
      expect(peer.count("node.fs.write")).to.equal(2);
      expect(remote.bytes("b")).to.equal(null);
    });

    it("waits for no other end of a FIFO", async () => {
      execFileSync("mkfifo", [local("fifo")]);
      expect(await fs("put", "fifo", "worker-1:b")).to.equal(2);
      expect(shell.stderr.text).to.include("only a regular file");
    });

    it("refuses what is no regular file before anything is sent", async () => {
      expect(await fs("put", ".", "worker-1:b")).to.equal(2);
      expect(await fs("put", "none", "worker-1:b")).to.equal(2);
      expect(await fs("put", "a.bin/none", "worker-1:b")).to.equal(2);
      expect(await fs("put", "-r", "none", "worker-1:b", "--json")).to.equal(2);
      expect(shell.stderr.text).to.include("no such file");
      expect(peer.requests).to.deep.equal([]);
    });
  });
});
