import { expect } from "chai";
import { type FsCommands, fsCommands } from "../support/fs-commands.ts";
import { NODE_ID } from "../support/node-rows.ts";
import { ScriptedTerminal, type TestShell } from "../support/test-shell.ts";

describe("lemon fs mkdir, mv and rm", () => {
  let room: FsCommands;
  let peer: FsCommands["peer"];
  let remote: FsCommands["remote"];
  let newShell: FsCommands["newShell"];
  let shell: TestShell;

  beforeEach(async () => {
    room = await fsCommands();
    ({ peer, remote, newShell } = room);
    shell = newShell();
  });
  afterEach(() => room[Symbol.asyncDispose]());

  const fs = (...words: readonly string[]): Promise<number> => shell.run("fs", ...words);

  describe("mkdir and mv", () => {
    it("make a directory", async () => {
      expect(await fs("mkdir", "worker-1:d")).to.equal(0);
      expect(remote.directories.has("d")).to.equal(true);
    });

    it("move what was looked at, over something only when told to", async () => {
      remote.put("a", Buffer.from("1"));
      remote.put("b", Buffer.from("2"));
      expect(await fs("mv", "worker-1:a", "worker-1:b")).to.equal(123);
      expect(await fs("mv", "worker-1:a", "worker-1:b", "--overwrite")).to.equal(0);
      expect(remote.bytes("b")?.toString()).to.equal("1");
    });

    it("stay on one node", async () => {
      expect(await fs("mv", "worker-1:a", "worker-2:b")).to.equal(2);
    });

    it("are sent once, and say how to find out when their answer is lost", async () => {
      remote.meet("mkdir", "after");
      expect(await fs("mkdir", "worker-1:a b")).to.equal(125);
      expect(shell.stderr.text).to.include(`lemon fs stat '${NODE_ID}:a b'`);
      expect(peer.count("node.fs.mkdir")).to.equal(1);
    });
  });

  describe("rm", () => {
    let terminal: ScriptedTerminal;
    beforeEach(() => {
      remote.put("a", Buffer.from("12345"));
      terminal = new ScriptedTerminal();
      shell = newShell({ terminal });
    });

    it("shows what would be deleted and deletes it after a yes", async () => {
      terminal.type("y");
      expect(await fs("rm", "worker-1:a")).to.equal(0);
      expect(terminal.output.text).to.include("/canonical/a").and.include("3 entries in all");
      expect(remote.bytes("a")).to.equal(null);
      expect(terminal.closed).to.equal(true);
    });

    for (const answer of ["", "n", "yesterday", "Y es"]) {
      it(`deletes nothing after ${JSON.stringify(answer)}`, async () => {
        terminal.type(answer);
        expect(await fs("rm", "worker-1:a")).to.equal(1);
        expect(peer.count("node.fs.delete")).to.equal(0);
      });
    }

    it("deletes nothing when the terminal hangs up", async () => {
      const ended = fs("rm", "worker-1:a");
      await terminal.output.said("delete?");
      terminal.hangUp();
      expect(await ended).to.equal(1);
      expect(peer.count("node.fs.delete")).to.equal(0);
    });

    it("asks nobody with --yes, and passes --recursive on", async () => {
      shell = newShell();
      expect(await fs("rm", "-r", "--yes", "worker-1:a", "--json")).to.equal(0);
      expect(shell.document).to.deep.equal({
        path: "/canonical/a",
        deleted: true,
        candidateCount: 3,
      });
      const preview = peer.requests.find(({ method }) => method === "node.fs.delete.preview");
      expect(preview?.params).to.include({ recursive: true });
    });

    it("refuses without a terminal and without --yes", async () => {
      shell = newShell();
      expect(await fs("rm", "worker-1:a")).to.equal(2);
      expect(peer.requests).to.deep.equal([]);
    });

    it("is sent once, and says how to find out when its answer is lost", async () => {
      shell = newShell();
      remote.meet("delete", "after");
      expect(await fs("rm", "--yes", "worker-1:a")).to.equal(125);
      expect(shell.stderr.text).to.include(`lemon fs stat ${NODE_ID}:a`);
    });
  });
});
