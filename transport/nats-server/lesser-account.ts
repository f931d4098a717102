/**
 * Owns what a server of ours needs to run as an account of lesser rights, which only root can give it.
 *
 * 1. It may write in its store, its ports folder and its log folder, and nowhere else; it may read its
 *    configuration, and nothing else of ours.
 * 2. It gets no right on the folders above its own: it is started within its folder, and knows relative paths alone.
 * 3. What it may write in is entered by us by names that it can not change.
 */
import { chmod, chown, lchown, lstat, mkdir, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errnoOf } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { ServerPlaces } from "./config.ts";

export interface ServerAccount {
  readonly uid: number;
  readonly gid: number;
}

const FOLDERS = { storeDirectory: "store", portsDirectory: "ports", log: "log" } as const;
const OTHERS_EXECUTE = 0o001;
const OTHERS_READ_EXECUTE = 0o005;

/** Where the server finds its places: it stands in its own folder. */
export function placesFor(places: ServerPlaces): ServerPlaces {
  return {
    ...places,
    storeDirectory: FOLDERS.storeDirectory,
    portsDirectory: FOLDERS.portsDirectory,
    logFile: join(FOLDERS.log, "nats.log"),
  };
}

/** Errors: `nats_server_failed` when the account can not come to the executable; those of the system. */
export async function prepareFolders(
  spec: { readonly directory: string; readonly binary: { readonly path: string } },
  { uid, gid }: ServerAccount,
): Promise<void> {
  if (!(await isForEverybody(spec.binary.path))) {
    throw new LemonError("nats_server_failed", {
      message:
        "nats-server lies where only its owner may go, so no lesser account can run it; install it in /usr/bin, or name another in LEMON_NATS_SERVER",
    });
  }
  await makeFolder(spec.directory);
  await chown(spec.directory, -1, gid);
  await chmod(spec.directory, 0o710);
  for (const name of Object.values(FOLDERS)) {
    const folder = join(spec.directory, name);
    await makeFolder(folder);
    if ((await lstat(folder)).uid !== uid) await giveTree(folder, uid, gid);
    await chmod(folder, 0o700);
  }
}

/** Lets the account read its configuration. */
export async function lendConfig(file: string, { gid }: ServerAccount): Promise<void> {
  await chown(file, -1, gid);
  await chmod(file, 0o640);
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    if ((await lstat(path)).isDirectory()) return;
  } catch (failure) {
    if (errnoOf(failure) !== "EEXIST") throw failure;
  }
  throw new LemonError("not_directory");
}

/** What an earlier life made as root, or as another account. Links are given, not followed. */
async function giveTree(path: string, uid: number, gid: number): Promise<void> {
  await lchown(path, uid, gid);
  if (!(await lstat(path)).isDirectory()) return;
  for (const name of await readdir(path)) await giveTree(join(path, name), uid, gid);
}

/** Whether any account may come to a file and run it. */
export async function isForEverybody(file: string): Promise<boolean> {
  if (((await stat(file)).mode & OTHERS_READ_EXECUTE) !== OTHERS_READ_EXECUTE) return false;
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    if (((await stat(folder)).mode & OTHERS_EXECUTE) === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}
