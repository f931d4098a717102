/**
 * Owns a program that moves and deletes once, in a process that may be refused a system call or killed.
 *
 * `node file-work.ts FOLDER ERRNO`: with renameat2 refused, tells as JSON how a move of `FOLDER/source` to
 * `FOLDER/target` and a delete of `FOLDER/source` end; `null` where that can not be had.
 * `node file-work.ts FOLDER kill`: deletes `FOLDER/source` and is killed when it removes the first entry.
 */
import { closeSync } from "node:fs";
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

const [, , folder = "", what = ""] = process.argv;
const root = openDirectory(folder);
const anchors = new Anchors([root]);
const preview = (path: string) =>
  atPlace(path, (place) => previewDelete(place, true, anchors).candidates);

const source = join(folder, "source");
const candidates = preview(source);
if (what === "kill") {
  if (refuseSyscall("unlinkat", "kill"))
    atPlace(source, (place) => deletePreviewed(place, candidates));
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
  const answer = refuseSyscall("renameat2", errnoNamed(what))
    ? [
        codeOf(() =>
          atPlace(source, (from) =>
            atPlace(join(folder, "target"), (to) =>
              moveEntry({ from, to, demandRevision, overwrite: false }, anchors),
            ),
          ),
        ),
        codeOf(() => atPlace(source, (place) => deletePreviewed(place, candidates))),
      ]
    : null;
  process.stdout.write(`${JSON.stringify(answer)}\n`);
  closeSync(root);
}

function errnoNamed(name: string): keyof typeof constants.errno {
  const isErrno = (text: string): text is keyof typeof constants.errno =>
    Object.hasOwn(constants.errno, text);
  if (!isErrno(name)) throw new TypeError("no such errno");
  return name;
}
