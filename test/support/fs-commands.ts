/** Owns what tests of `lemon fs` stand on: a control plane with one node and its files, a folder here, a shell in it. */
import { expect } from "chai";
import { FakeControlPlane } from "./fake-control-plane.ts";
import { FakeFiles } from "./fake-files.ts";
import { nodeList, nodeRow } from "./node-rows.ts";
import { tempFolder } from "./temp-folder.ts";
import { TestShell } from "./test-shell.ts";

export type FsCommands = Awaited<ReturnType<typeof fsCommands>>;

/** On disposal every frame must have been in order. */
export async function fsCommands() {
  const peer = await FakeControlPlane.start();
  peer.on("node.list", () => nodeList(nodeRow()));
  const folder = tempFolder();
  return {
    peer,
    folder,
    remote: new FakeFiles(peer),
    newShell: (more: ConstructorParameters<typeof TestShell>[0] = {}) =>
      new TestShell({ environment: { LEMON_CONTROLLER: peer.url }, cwd: folder.path, ...more }),
    async [Symbol.asyncDispose]() {
      await peer.stop();
      folder[Symbol.dispose]();
      expect(peer.breaches).to.deep.equal([]);
    },
  };
}
