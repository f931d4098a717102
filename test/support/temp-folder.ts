/** Owns the folder a test may write in: its own, canonical, gone when the test is over. */
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TempFolder {
  readonly path: string;
  [Symbol.dispose](): void;
}

export function tempFolder(parent: string = tmpdir()): TempFolder {
  const path = realpathSync(mkdtempSync(join(parent, "lemon-test-")));
  return {
    path,
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}
