/**
 * What the file operations do with second names of the state folder: a program of its own, since only its
 * mount namespace has its mounts. `argv[2]` is an empty folder. Prints what came of it as JSON.
 */
import { execFileSync } from "node:child_process";
import { linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type FileOperations, openFileOperations } from "../../host/files/operations.ts";
import { LemonError } from "../../protocol/errors.ts";
import { filesRoom } from "./files-room.ts";

const folder = process.argv[2] ?? "";
const results: Record<string, unknown> = {};

function outcomeOf(act: () => unknown): unknown {
  try {
    act();
    return "done";
  } catch (failure) {
    if (failure instanceof LemonError) return failure.code;
    throw failure;
  }
}

const room = filesRoom(undefined, folder);
const { home } = room;
const state = join(home, ".lemon");
mkdirSync(join(state, "run/a b"), { recursive: true });
mkdirSync(join(state, "disk"));
for (const path of ["run/a b/token", "run/token"]) writeFileSync(join(state, path), "token");
for (const path of ["sub", "space", "self", "disk", "own disk", "harmless/below"])
  mkdirSync(join(home, path), { recursive: true });
writeFileSync(join(home, "file"), "");
writeFileSync(join(home, "harmless/file"), "harmless");

const mount = (...words: readonly string[]) =>
  execFileSync("sh", ["-c", 'exec mount "$@"', "sh", ...words], { stdio: "ignore" });
const bind = (from: string, to: string) => mount("--bind", from, to);

function read(path: string, files: FileOperations = room.files): unknown {
  return outcomeOf(() => files.read({ path, offset: 0, length: 9 }));
}
const stat = (path: string) => outcomeOf(() => room.files.stat({ path }));
const told = (path: string, name: string) => {
  const entry = room.files
    .list({ path, showHidden: true })
    .entries.find((one) => one.name === name);
  return entry !== undefined && "error" in entry ? entry.error : entry?.type;
};
const write = (path: string) =>
  outcomeOf(() =>
    room.files.write({
      path,
      bytes: Buffer.from("x"),
      offset: 0,
      truncate: true,
      mkdirs: true,
      expectedModifiedAtMs: null,
    }),
  );

bind(join(state, "run"), join(home, "sub"));
results["a folder"] = [read("sub/token"), stat("sub"), told(".", "sub"), write("sub/new/file")];
bind(join(state, "run/a b"), join(home, "space"));
results["a folder with a space in its name"] = read("space/token");
mount("--rbind", home, join(home, "self"));
results["the folder above"] = [read("self/.lemon/run/token"), read("self/harmless/file")];
results["a mount in a mount"] = read("self/sub/token");
bind(join(state, "run/token"), join(home, "file"));
results["a file"] = [read("file"), told(".", "file")];
mount("-t", "tmpfs", "lemon-test", join(home, "disk"));
writeFileSync(join(home, "disk/file"), "");
results["another disk"] = read("disk/file");
mount("-t", "tmpfs", "lemon-test", join(state, "disk"));
writeFileSync(join(state, "disk/key"), "key");
bind(join(state, "disk"), join(home, "own disk"));
results["a disk that is mounted below it"] = read("own disk/key");

mkdirSync(join(folder, "root/inner"), { recursive: true });
bind(join(state, "run"), join(folder, "root"));
const spec = { defaultCwd: home, stateFolder: state };
for (const [what, root] of [
  ["a root", "root"],
  ["a root below it", "root/a b"],
] as const) {
  const files = openFileOperations({ ...spec, roots: [join(folder, root)] });
  results[what] = read(join(folder, root, "token"), files);
  files.close();
}
bind(join(home, "harmless"), join(folder, "second"));
const files = openFileOperations({ ...spec, roots: [join(folder, "second")] });
results["a root of something else"] = read(join(folder, "second/file"), files);
files.close();

linkSync(join(state, "key"), join(home, "linked"));
linkSync(join(home, "harmless/file"), join(home, "harmless/twice"));
results["a hard link"] = [read("linked"), write("linked"), told(".", "linked")];
results["a hard link to something else"] = [read("harmless/twice"), told("harmless", "twice")];
unlinkSync(join(state, "key"));
results["what is not in it any more"] = read("linked");
results["what was written"] = readFileSync(join(home, "linked"), "utf8");
room[Symbol.dispose]();
process.stdout.write(JSON.stringify(results));
