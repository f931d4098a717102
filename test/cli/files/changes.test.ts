/** Proves how `lemon fs` makes, moves and deletes. */
import { expect } from "chai";
import { FsCommands } from "../../support/fs-commands.ts";
import { NODE_ID } from "../../support/node-rows.ts";
import { ScriptedTerminal } from "../../support/test-shell.ts";

describe("lemon fs mkdir, mv and rm", () => {
  let room: FsCommands;
  beforeEach(async () => {
    room = await FsCommands.open();
  });
  afterEach(() => room[Symbol.asyncDispose]());

  describe("mkdir and mv", () => {
    it("make a directory", async () => {
      expect(await room.fs("mkdir", "worker-1:d")).to.equal(0);
      expect(room.remote.directories.has("d")).to.equal(true);
    });

    it("move what was looked at, over something only when told to", async () => {
      room.remote.put("a", Buffer.from("1"));
      room.remote.put("b", Buffer.from("2"));
      expect(await room.fs("mv", "worker-1:a", "worker-1:b")).to.equal(123);
      expect(await room.fs("mv", "worker-1:a", "worker-1:b", "--overwrite")).to.equal(0);
      expect(room.remote.bytes("b")?.toString()).to.equal("1");
    });

    it("stay on one node", async () => {
      expect(await room.fs("mv", "worker-1:a", "worker-2:b")).to.equal(2);
    });

    it("are sent once, and say how to find out when their answer is lost", async () => {
      room.remote.meet("mkdir", "after");
      expect(await room.fs("mkdir", "worker-1:a b")).to.equal(125);
      expect(room.shell.stderr.text).to.include(`lemon fs stat '${NODE_ID}:a b'`);
      expect(room.peer.count("node.fs.mkdir")).to.equal(1);
    });
  });

  describe("rm", () => {
    let terminal: ScriptedTerminal;
    beforeEach(() => {
      room.remote.put("a", Buffer.from("12345"));
      terminal = new ScriptedTerminal();
      room.newShell({ terminal });
    });

    it("shows what would be deleted and deletes it after a yes", async () => {
      terminal.type("y");
      expect(await room.fs("rm", "worker-1:a")).to.equal(0);
      expect(terminal.output.text).to.include("/canonical/a").and.include("3 entries in all");
      expect(room.remote.bytes("a")).to.equal(null);
      expect(terminal.closed).to.equal(true);
    });

    for (const answer of ["", "n", "yesterday", "Y es"]) {
      it(`deletes nothing after ${JSON.stringify(answer)}`, async () => {
        terminal.type(answer);
        expect(await room.fs("rm", "worker-1:a")).to.equal(1);
        expect(room.peer.count("node.fs.delete")).to.equal(0);
      });
    }

    it("deletes nothing when the terminal hangs up", async () => {
      const ended = room.fs("rm", "worker-1:a");
      await terminal.output.said("delete?");
      terminal.hangUp();
      expect(await ended).to.equal(1);
      expect(room.peer.count("node.fs.delete")).to.equal(0);
    });

    it("asks nobody with --yes, and passes --recursive on", async () => {
      room.newShell();
      expect(await room.fs("rm", "-r", "--yes", "worker-1:a", "--json")).to.equal(0);
      expect(room.shell.document).to.deep.equal({
        path: "/canonical/a",
        deleted: true,
        candidateCount: 3,
      });
      const preview = room.peer.requests.find(({ method }) => method === "node.fs.delete.preview");
      expect(preview?.params).to.include({ recursive: true });
    });

    it("refuses without a terminal and without --yes", async () => {
      room.newShell();
      expect(await room.fs("rm", "worker-1:a")).to.equal(2);
      expect(room.peer.requests).to.deep.equal([]);
    });

    it("is sent once, and says how to find out when its answer is lost", async () => {
      room.newShell();
      room.remote.meet("delete", "after");
      expect(await room.fs("rm", "--yes", "worker-1:a")).to.equal(125);
      expect(room.shell.stderr.text).to.include(`lemon fs stat ${NODE_ID}:a`);
    });
  });
});
