/**
 * Owns a program that moves and deletes once, in a process that may be refused a system call or killed.
 *
 * `node file-work.ts FOLDER renameat2|fsync ERRNO`: with that call refused, tells as JSON how a delete of
 * `FOLDER/doomed` and a move of `FOLDER/source` to `FOLDER/target` end; `null` where that can not be had.
 * `node file-work.ts FOLDER kill`: deletes `FOLDER/doomed` and is killed when it removes the first entry.
 */
import { writeSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { Anchors } from "../../host/files/anchors.ts";
import { deletePreviewed } from "../../host/files/delete.ts";
import { moveEntry } from "../../host/files/move.ts";
import { previewDelete } from "../../host/files/preview.ts";
import { openDirectory } from "../../host/native/directory.ts";
import { LemonError } from "../../protocol/errors.ts";
import { atPlace } from "./file-places.ts";
import { refuseSyscall } from "./refused-syscall.ts";

const [, , folder = "", what = "", errno = ""] = process.argv;
const root = openDirectory(folder);
const anchors = new Anchors([root]);
const preview = (path: string) =>
  atPlace(path, (place) => previewDelete(place, true, anchors).candidates);

const source = join(folder, "source");
const doomed = join(folder, "doomed");
const candidates = preview(doomed);
if (what === "kill") {
  if (refuseSyscall("unlinkat", "kill"))
    atPlace(doomed, (place) => deletePreviewed(place, candidates));
  process.stdout.write("null\n");
} else {
  const codeOf = (act: () => void): string => {
    try {
      act();
      return "done";
    } catch (failure) {
      if (!(failure instanceof LemonError)) throw failure;
      return `${failure.code} ${failure.mutationMayHaveApplied}`;
    }
  };
  const demandRevision = () => {};
  const answer = refuseSyscall(what === "fsync" ? "fsync" : "renameat2", errnoNamed(errno))
    ? [
        codeOf(() => atPlace(doomed, (place) => deletePreviewed(place, candidates))),
        codeOf(() =>
          atPlace(source, (from) =>
            atPlace(join(folder, "target"), (to) =>
              moveEntry({ from, to, demandRevision, overwrite: false }, anchors),
            ),
          ),
        ),
      ]
    : null;
  writeSync(1, `${JSON.stringify(answer)}\n`);
  // An orderly end would sync its output, which is refused now.
  process.kill(process.pid, "SIGKILL");
}

function errnoNamed(name: string): keyof typeof constants.errno {
  const isErrno = (text: string): text is keyof typeof constants.errno =>
    Object.hasOwn(constants.errno, text);
  if (!isErrno(name)) throw new TypeError("no such errno");
  return name;
}
