/**
 * What the file operations do on a file system that is full, out of inodes or read-only: a program of its
 * own, since only its mount namespace has it. `argv[2]` is the file system's folder, of 2 MiB and few
 * inodes. Prints what came of it as JSON.
 */
import { execFileSync } from "node:child_process";
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { overwrite } from "../../host/files/overwriting.ts";
import { errnoOf } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import { filesRoom } from "./files-room.ts";

const folder = process.argv[2] ?? "";
const results: Record<string, unknown> = {};
const KIB = 1_024;

/** The code, and whether something may have happened; or that it went well. */
function outcomeOf(act: () => unknown): unknown {
  try {
    act();
    return "done";
  } catch (failure) {
    if (failure instanceof LemonError) return [failure.code, failure.mutationMayHaveApplied];
    throw failure;
  }
}

const room = filesRoom(undefined, folder);
const filler = openSync(join(folder, "filler"), "w");

/** Leaves `bytes` free. */
function leave(bytes: number): void {
  ftruncateSync(filler, 0);
  let size = 0;
  try {
    for (;;) size += writeSync(filler, Buffer.alloc(4 * KIB, 1), 0, 4 * KIB, size);
  } catch (failure) {
    if (errnoOf(failure) !== "ENOSPC") throw failure;
  }
  ftruncateSync(filler, size - bytes);
}

function write(path: string, bytes: Buffer, offset: number, expected: number | null): unknown {
  return outcomeOf(() =>
    room.files.write({
      path,
      bytes,
      offset,
      truncate: true,
      mkdirs: true,
      expectedModifiedAtMs: expected,
    }),
  );
}

const file = join(room.home, "file");
const old = Buffer.alloc(300 * KIB, "old ");
const chunk = Buffer.alloc(1_024 * KIB, "new!");
writeFileSync(file, old);
const before = statSync(file, { bigint: true });
const revision = room.files.stat({ path: "file" }).mtimeMs;

leave(64 * KIB);
results["a new file"] = write("a/b/new", chunk, 0, null);
results["what it left"] = readdirSync(room.home).sort();
results["an overwrite that fails in the middle"] = write("file", chunk, 200 * KIB, revision);
const after = statSync(file, { bigint: true });
results["the file is as it was"] =
  readFileSync(file).equals(old) && after.mtimeNs === before.mtimeNs && after.ino === before.ino;
results["a write into what there is"] = write("file", chunk.subarray(0, 100), 7, revision);

const unreadable = openSync(file, "w");
writeSync(unreadable, old);
const state = fstatSync(unreadable, { bigint: true });
results["an overwrite whose old bytes nobody may read"] = outcomeOf(() =>
  overwrite(
    { fd: unreadable, canRead: false, before: state },
    { bytes: chunk, offset: 0, truncate: true },
  ),
);
closeSync(unreadable);

ftruncateSync(filler, 0);
const seen = room.files.stat({ path: "file" }).mtimeMs;
results["with space again"] = write("file", chunk, 0, seen);

let last = "";
try {
  for (let n = 0; ; n += 1) {
    const path = join(folder, `inode-${n}`);
    closeSync(openSync(path, "w"));
    last = path;
  }
} catch (failure) {
  if (errnoOf(failure) !== "ENOSPC") throw failure;
}
rmSync(last);
results["parents for which one inode is left"] = outcomeOf(() =>
  room.files.mkdir({ path: "p/q/r" }),
);
results["a file for whose parent one inode is left"] = write("p/q", Buffer.from("x"), 0, null);
results["what they left"] = readdirSync(room.home).sort();
results["a parent alone"] = outcomeOf(() => room.files.mkdir({ path: "p" }));

closeSync(filler);
execFileSync("sh", ["-c", 'mount -o remount,bind,ro "$0"', folder]);
const now = room.files.stat({ path: "file" });
results["writable when read-only"] = now.writable;
results["a read when read-only"] = outcomeOf(() =>
  room.files.read({ path: "file", offset: 0, length: 10 }),
);
results["an overwrite when read-only"] = write("file", Buffer.from("x"), 0, now.mtimeMs);
results["a new file when read-only"] = write("other", Buffer.from("x"), 0, null);
results["a directory when read-only"] = outcomeOf(() => room.files.mkdir({ path: "d" }));
room[Symbol.dispose]();
process.stdout.write(JSON.stringify(results));
