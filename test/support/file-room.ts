/** Owns a file service for tests: an actor system on a bent clock, a real helper process, a folder of its own. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type FileService, startFileService } from "../../actors/file-service/service.ts";
import { pinRoots } from "../../host/allowed-roots.ts";
import type { TreeNode } from "../../supervision/actor.ts";
import { type TestSystem, testSystem } from "./supervision.ts";
import { tempFolder } from "./temp-folder.ts";

export interface FileRoom extends AsyncDisposable {
  readonly files: FileService;
  readonly system: TestSystem;
  /** The one allowed root, and the default cwd. */
  readonly folder: string;
  /** One actor's row in the tree, by the end of its path. */
  row(path: string): TreeNode | undefined;
  /** Resolves once the helper is down, and lets its back-off pass. */
  nextHelper(): Promise<void>;
}

const FAKE = new URL("./fake-file-helper.ts", import.meta.url);

export interface FileRoomOptions {
  /** Runs the real helper. */
  readonly real?: boolean;
  /** The allowed root, instead of one of its own. */
  readonly folder?: string;
}

export async function fileRoom(options: FileRoomOptions = {}): Promise<FileRoom> {
  const temp = tempFolder();
  const { folder = join(temp.path, "work") } = options;
  mkdirSync(join(temp.path, "state"));
  if (options.folder === undefined) mkdirSync(folder);
  const system = testSystem();
  const stateFolder = join(temp.path, "state");
  const roots = pinRoots({ roots: [folder], defaultCwd: folder, stateFolder });
  const files = await startFileService(
    system.root,
    options.real === true ? { roots } : { roots, helper: FAKE },
  );
  const row = (path: string): TreeNode | undefined => find(system.snapshot(), path);
  return {
    files,
    system,
    folder,
    row,
    async nextHelper() {
      while (row("/helpers/helper")?.state !== "backing_off") {
        await new Promise((resolve) => setImmediate(resolve));
      }
      await system.clock.advance(1_000);
    },
    async [Symbol.asyncDispose]() {
      await system.shutdown();
      roots.close();
      temp[Symbol.dispose]();
    },
  };
}

function find(node: TreeNode, path: string): TreeNode | undefined {
  if (node.path.endsWith(path)) return node;
  for (const child of node.children) {
    const found = find(child, path);
    if (found !== undefined) return found;
  }
  return undefined;
}
