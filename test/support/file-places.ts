/** Owns what tests of files need beside a folder: places in it, the account they act as, what stands there. */
import { closeSync, lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { basename, dirname } from "node:path";
import type { NamedPlace } from "../../host/files/capture.ts";
import { openDirectory } from "../../host/native/directory.ts";
import type { Entry } from "../../host/native/entry.ts";
import { LemonError } from "../../protocol/errors.ts";

/** Does `act` with the place that an absolute path names, its directory open. */
export function atPlace<T>(path: string, act: (place: NamedPlace) => T): T {
  const parent = openDirectory(dirname(path));
  try {
    return act({ parent, name: Buffer.from(basename(path)) });
  } finally {
    closeSync(parent);
  }
}

/** Demands a modification time, cut to the ms, of what is to be moved. */
export function modifiedAt(expectedMs: number): (source: Entry) => void {
  return ({ mtimeNs }) => {
    if (Number(mtimeNs / 1_000_000n) !== expectedMs) throw new LemonError("revision_conflict");
  };
}

/** An account that the mode bits bind. */
const NOBODY = 65_534;

/** Does `act` as an account that mode bits bind: as another one when this is root. */
export function asOrdinaryUser<T>(act: () => T): T {
  if (process.geteuid?.() !== 0) return act();
  process.seteuid?.(NOBODY);
  try {
    return act();
  } finally {
    process.seteuid?.(0);
  }
}

/** The owner of what `asOrdinaryUser` may change. */
export function ordinaryUser(): number {
  return process.geteuid?.() === 0 ? NOBODY : (process.geteuid?.() ?? 0);
}

/** Everything below a folder by its path (its bytes as Latin-1): kind, mode, modification time, content or target. */
export function treeOf(folder: string, below = ""): ReadonlyMap<string, string> {
  const tree = new Map<string, string>();
  const at = (path: string) => Buffer.from(`${folder}/${path}`, "latin1");
  for (const name of readdirSync(at(below), { encoding: "latin1" }).sort()) {
    const path = below === "" ? name : `${below}/${name}`;
    const stats = lstatSync(at(path), { bigint: true });
    const about = [stats.mode.toString(8), stats.ino, stats.mtimeNs];
    if (stats.isFile()) about.push(readFileSync(at(path), "latin1"));
    if (stats.isSymbolicLink()) about.push(readlinkSync(at(path)));
    tree.set(path, about.join(" "));
    if (stats.isDirectory()) for (const entry of treeOf(folder, path)) tree.set(...entry);
  }
  return tree;
}
