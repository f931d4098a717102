/** Owns a small world for the file service: a root, a second root, a state folder, and an outside that must stay as it is. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { type FileOperations, openFileOperations } from "../../host/files/operations.ts";
import {
  bestOpenAt,
  type OpenAt,
  openBeneath,
  openComponent,
} from "../../host/native/directory.ts";
import { openFiles } from "./descriptors.ts";
import { tempFolder } from "./temp-folder.ts";

/** Every way to open a component that this kernel knows, and its name. */
export function waysToOpen(): readonly { readonly name: string; readonly openAt: OpenAt }[] {
  const plain = { name: "openat", openAt: openComponent };
  return bestOpenAt() === openBeneath ? [{ name: "openat2", openAt: openBeneath }, plain] : [plain];
}

export interface FilesRoom extends Disposable {
  readonly files: FileOperations;
  /** Canonical; holds `home`, `second`, `outside`, and `home/.lemon`, the state folder. */
  readonly top: string;
  readonly home: string;
}

/** `at` instead of a temporary folder of its own. On disposal no file may be left open. */
export function filesRoom(openAt?: OpenAt, at?: string): FilesRoom {
  const folder = at === undefined ? tempFolder() : { path: at, [Symbol.dispose]: () => undefined };
  const top = folder.path;
  for (const name of ["home/.lemon", "second", "outside"])
    mkdirSync(join(top, name), { recursive: true });
  writeFileSync(join(top, "outside/secret"), "secret");
  writeFileSync(join(top, "home/.lemon/key"), "key");
  const before = openFiles();
  const home = join(top, "home");
  const files = openFileOperations(
    { roots: [home, join(top, "second")], defaultCwd: home, stateFolder: join(home, ".lemon") },
    openAt,
  );
  return {
    files,
    top,
    home,
    [Symbol.dispose]() {
      files.close();
      expect(openFiles()).to.deep.equal(before);
      folder[Symbol.dispose]();
    },
  };
}
