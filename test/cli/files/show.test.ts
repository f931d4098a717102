/** Proves what `lemon fs ls`, `stat` and `cat` show of a node. */
import { randomBytes } from "node:crypto";
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import { FsCommands } from "../../support/fs-commands.ts";
import { NODE_ID } from "../../support/node-rows.ts";

const MIB = 1_048_576;

describe("lemon fs", () => {
  let room: FsCommands;
  beforeEach(async () => {
    room = await FsCommands.open();
  });
  afterEach(() => room[Symbol.asyncDispose]());

  describe("ls and stat", () => {
    it("show what is there, and nothing of it can drive the terminal", async () => {
      room.remote.put("a\u001b[31m\n.txt", Buffer.from("12345"));
      expect(await room.fs("ls", "worker-1:")).to.equal(0);
      expect(room.shell.stdout.text).to.match(
        /^- {2}0644 {2}5 B {2}\S+Z {2}a\\u\{1b\}\[31m\\u\{a\}\.txt\n$/,
      );
      expect(room.peer.requests.at(-1)?.params).to.deep.include({ path: ".", showHidden: false });
    });

    it("say what could not be looked at, and that there is more", async () => {
      room.peer.on("node.fs.list", ({ path }) => ({
        path,
        entries: [{ name: "x", error: "permission_denied" }],
        limit: 500,
        truncated: true,
      }));
      expect(await room.fs("ls", "-a", "worker-1:d")).to.equal(0);
      expect(room.shell.stdout.text).to.include("permission_denied  x");
      expect(room.shell.stderr.text).to.include("only the first 500");
      expect(room.peer.requests.at(-1)?.params).to.deep.include({ path: "d", showHidden: true });
    });

    it("print the answer as it came with --json", async () => {
      room.remote.put("a", Buffer.from("12345"));
      expect(await room.fs("stat", `${NODE_ID}:a`, "--json")).to.equal(0);
      expect(room.shell.document).to.include({ path: "a", size: 5, type: "regular" });
    });

    it("end with 122 for what is not there, and 121 for what is refused", async () => {
      expect(await room.fs("stat", "worker-1:none")).to.equal(122);
      expect(await room.fs("stat", "worker-2:none")).to.equal(122);
      room.peer.on("node.fs.stat", () => {
        throw new LemonError("path_not_allowed");
      });
      expect(await room.fs("stat", "worker-1:/etc")).to.equal(121);
    });

    for (const place of [
      "worker-1",
      ":a",
      "worker-1:a/../b",
      "worker-1:\0",
      `w:${"a".repeat(4_097)}`,
    ]) {
      it(`refuse ${JSON.stringify(place.slice(0, 20))} before anything is sent`, async () => {
        expect(await room.fs("stat", place)).to.equal(2);
        expect(room.peer.requests).to.deep.equal([]);
      });
    }
  });

  describe("cat", () => {
    it("writes the bytes and nothing else, over cuts", async () => {
      const bytes = randomBytes(3 * MIB + 17);
      room.remote.put("a", bytes);
      room.remote.meet("read", null, "before", null, "after");
      expect(await room.fs("cat", "worker-1:a")).to.equal(0);
      expect(room.shell.stdout.bytes.equals(bytes)).to.equal(true);
    });

    it("is one document with --json", async () => {
      room.remote.put("a", Buffer.from("hello"));
      expect(await room.fs("cat", "worker-1:a", "--json")).to.equal(0);
      expect(room.shell.document).to.include({ size: 5, dataBase64: "aGVsbG8=" });
    });

    it("refuses a directory", async () => {
      expect(await room.fs("cat", "worker-1:.")).to.equal(121);
      expect(room.shell.stderr.text).to.include("directory");
    });
  });
});
