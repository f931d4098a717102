/** Owns what tests of `lemon fs` stand on: a control plane with one node and its files, a folder here, a shell in it. */
import { join } from "node:path";
import { expect } from "chai";
import { FakeControlPlane } from "./fake-control-plane.ts";
import { FakeFiles } from "./fake-files.ts";
import { nodeList, nodeRow } from "./node-rows.ts";
import { type TempFolder, tempFolder } from "./temp-folder.ts";
import { TestShell } from "./test-shell.ts";

export class FsCommands implements AsyncDisposable {
  readonly peer: FakeControlPlane;
  /** The node's. */
  readonly remote: FakeFiles;
  /** The latest. */
  shell: TestShell;
  readonly #folder: TempFolder = tempFolder();

  private constructor(peer: FakeControlPlane) {
    this.peer = peer;
    this.remote = new FakeFiles(peer);
    this.shell = this.newShell();
  }

  static async open(): Promise<FsCommands> {
    const peer = await FakeControlPlane.start();
    peer.on("node.list", () => nodeList(nodeRow()));
    return new FsCommands(peer);
  }

  /** Every frame must have been in order. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.peer.stop();
    this.#folder[Symbol.dispose]();
    expect(this.peer.breaches).to.deep.equal([]);
  }

  /** Where the commands are typed. */
  get folder(): string {
    return this.#folder.path;
  }

  local(name: string): string {
    return join(this.folder, name);
  }

  newShell(more: ConstructorParameters<typeof TestShell>[0] = {}): TestShell {
    this.shell = new TestShell({
      environment: { LEMON_CONTROLLER: this.peer.url },
      cwd: this.folder,
      ...more,
    });
    return this.shell;
  }

  /** In the latest shell. */
  fs(...words: readonly string[]): Promise<number> {
    return this.shell.run("fs", ...words);
  }

  /** In a shell of its own. */
  fsAnew(...words: readonly string[]): Promise<number> {
    return this.newShell().run("fs", ...words);
  }
}
