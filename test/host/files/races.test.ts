import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { Anchors } from "../../../host/files/anchors.ts";
import { type Candidate, decodeCandidates } from "../../../host/files/candidates.ts";
import { deletePreviewed } from "../../../host/files/delete.ts";
import { moveEntry } from "../../../host/files/move.ts";
import { type FileOperations, openFileOperations } from "../../../host/files/operations.ts";
import { previewDelete } from "../../../host/files/preview.ts";
import { openDirectory } from "../../../host/native/directory.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { atPlace, modifiedAt, treeOf } from "../../support/file-places.ts";
import { FILES, FOLDERS, type StormReport, TREE, VAULT } from "../../support/file-storm.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const ROUNDS_MS = 1_000;
/** How long it changes the tree before it rests: from before the first look to beyond the end. */
const STORM_MS = [1, 5, 10_000, 20, 45, 10_000] as const;
const STORM = fileURLToPath(new URL("../../support/file-storm.ts", import.meta.url));

describe("beside a program that changes the tree thousands of times a second", () => {
  let folder: TempFolder;
  let arena: string;
  let root: number;
  let anchors: Anchors;
  let files: FileOperations;
  let program: ChildProcess;
  let lines: Interface;
  let serial = 0;

  before(() => {
    // In memory where there is such a place: many more rounds.
    folder = tempFolder(existsSync("/dev/shm") ? "/dev/shm" : tmpdir());
    arena = folder.path;
    mkdirSync(join(arena, "root"));
    mkdirSync(join(arena, "state"));
    mkdirSync(join(arena, "outside/sub/deep"), { recursive: true });
    for (const path of ["file-0", "sub/file-1", "sub/deep/file-2"])
      writeFileSync(join(arena, "outside", path), `outside ${path}`);
    root = openDirectory(join(arena, "root"));
    anchors = new Anchors([root]);
    const rootPath = join(arena, "root");
    files = openFileOperations({
      roots: [rootPath],
      defaultCwd: rootPath,
      stateFolder: join(arena, "state"),
    });
    program = spawn(process.execPath, [STORM, arena], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    if (program.stdout === null) throw new TypeError("the storm has no output");
    lines = createInterface({ input: program.stdout });
  });
  after(async () => {
    program.stdin?.end();
    await once(program, "exit");
    closeSync(root);
    files.close();
    folder[Symbol.dispose]();
  });

  async function command(line: string): Promise<string> {
    const answered = once(lines, "line");
    program.stdin?.write(`${line}\n`);
    const [answer] = await answered;
    return String(answer);
  }

  async function stop(): Promise<StormReport> {
    const { changes, made }: StormReport = JSON.parse(await command("stop"));
    return { changes, made };
  }

  function build(): void {
    rmSync(join(arena, "root/tree"), { recursive: true, force: true });
    for (const name of readdirSync(join(arena, "root")))
      rmSync(join(arena, "root", name), { recursive: true });
    const write = (path: string) => writeFileSync(join(arena, path), `file-${serial++}`);
    mkdirSync(join(arena, TREE, "sub/deep"), { recursive: true });
    mkdirSync(join(arena, VAULT));
    for (let n = 0; n < FILES; n += 1) {
      for (const below of FOLDERS) write(join(TREE, below, `file-${n}`));
      write(join(VAULT, `file-${n}`));
      symlinkSync("../../outside", join(arena, VAULT, `link-${n}`));
      mkdirSync(join(arena, VAULT, `folder-${n}/sub/deep`), { recursive: true });
      for (const below of FOLDERS) write(join(VAULT, `folder-${n}`, below, "file-0"));
    }
  }

  /** Every object below the root: files by the first word in them, all else by kind and inode; with its inode. */
  function objects(): Map<string, string> {
    const found = new Map<string, string>();
    for (const [path, about] of treeOf(join(arena, "root"))) {
      const [mode = "", ino = "", , content = ""] = about.split(" ");
      const isFile = mode.startsWith("100");
      if (isFile && content === "") continue;
      expect(found.has(content), path).to.equal(false);
      found.set(isFile ? content : `${mode.slice(0, 2)} ${ino}`, ino);
    }
    return found;
  }

  const leftovers = () =>
    [...treeOf(join(arena, "root")).keys()].filter((path) => /(^|\/)\.lemon-/.test(path)).length;

  function inodesOf({ revision, children }: Candidate): string[] {
    return [String(revision.ino), ...children.flatMap(inodesOf)];
  }

  /** What an attempt ended in; its failure is of the table. */
  function attempt(act: () => void): LemonError | null {
    try {
      act();
      return null;
    } catch (failure) {
      if (failure instanceof LemonError) return failure;
      throw failure;
    }
  }

  const bare = {
    preview: () =>
      atPlace(join(arena, TREE), (place) => previewDelete(place, true, anchors).candidates),
    remove: (candidates: Uint8Array) =>
      atPlace(join(arena, TREE), (place) => deletePreviewed(place, candidates)),
  };
  /** The storm exchanges the parent, too, for a link to the outside. */
  const walked = {
    preview: () => files.preview({ path: "tree/sub", recursive: true }).candidates,
    remove: (candidates: Uint8Array) => void files.delete({ path: "tree/sub", candidates }),
  };

  for (const { how, mode, preview, remove } of [
    { how: "at its name", mode: "path", ...bare },
    { how: "from inside", mode: "descriptor", ...bare },
    { how: "on the way to it", mode: "path", ...walked },
  ] as const)
    it(`removes nothing that was not previewed, and tells no success of a changed tree (changed ${how})`, async () => {
      const outside = treeOf(join(arena, "outside"));
      const tally = { rounds: 0, deleted: 0, partly: 0, refused: 0, changes: 0 };
      const until = performance.now() + ROUNDS_MS;
      while (performance.now() < until) {
        build();
        const known = objects();
        await command(`go ${mode} ${STORM_MS[tally.rounds % STORM_MS.length]}`);
        let candidates: Uint8Array = new Uint8Array();
        const unseen = attempt(() => {
          candidates = preview();
        });
        const previewed = process.hrtime.bigint();
        // Every other time the storm has a while for itself in between.
        if (tally.rounds % 2 === 0) while (process.hrtime.bigint() < previewed + 2_000_000n);
        const began = process.hrtime.bigint();
        const refusal = unseen ?? attempt(() => remove(candidates));
        const { changes, made } = await stop();

        tally.rounds += 1;
        tally.changes += changes.length;
        for (const [id, ino] of made) known.set(id, ino);
        const present = objects();
        const missing = [...known].filter(([id]) => !present.has(id));
        const admitted = new Set(unseen === null ? inodesOf(decodeCandidates(candidates)) : []);
        for (const [id, ino] of missing) expect(admitted.has(ino), `${id} is gone`).to.equal(true);
        expect(treeOf(join(arena, "outside"))).to.deep.equal(outside);

        if (refusal === null) {
          tally.deleted += 1;
          const between = changes.filter(
            ([from, to]) => BigInt(from) > previewed && BigInt(to) < began,
          );
          // What was changed on the way to it is no change of it.
          if (how !== "on the way to it") expect(between).to.deep.equal([]);
          expect(missing.length).to.be.greaterThan(0);
          expect(leftovers()).to.equal(0);
        } else if (refusal.mutationMayHaveApplied) {
          tally.partly += 1;
          const { removed, leftUnderTemporaryName } = refusal.details;
          expect(missing.length).to.be.at.most(Number(removed));
          expect(leftovers()).to.be.at.most(Number(leftUnderTemporaryName));
        } else {
          tally.refused += 1;
          expect(missing).to.deep.equal([]);
          expect(leftovers()).to.equal(0);
        }
      }
    });

  for (const overwrite of [false, true])
    it(`moves without a loss${overwrite ? " but of what it may replace" : ""}`, async () => {
      const outside = treeOf(join(arena, "outside"));
      const source = join(arena, TREE, "file-0");
      const target = join(arena, TREE, "sub/new-0");
      const tally = { rounds: 0, moved: 0, refused: 0, left: 0, changes: 0 };
      const until = performance.now() + ROUNDS_MS;
      while (performance.now() < until) {
        build();
        // No change of the storm's gives this time to anything else.
        utimesSync(source, 5_000, 5_000);
        const { ino } = lstatSync(source, { bigint: true });
        const content = readFileSync(source, "latin1");
        const known = objects();
        await command(`go descriptor ${STORM_MS[tally.rounds % STORM_MS.length]}`);
        const refusal = attempt(() =>
          atPlace(source, (from) =>
            atPlace(target, (to) =>
              moveEntry({ from, to, demandRevision: modifiedAt(5_000_000), overwrite }, anchors),
            ),
          ),
        );
        const { changes, made } = await stop();
        tally.rounds += 1;
        tally.changes += changes.length;
        for (const [id, inode] of made) known.set(id, inode);
        const present = objects();
        const missing = [...known].filter(([id]) => !present.has(id));
        expect(present.get(content)).to.equal(String(ino));
        expect(missing.length).to.be.at.most(refusal === null && overwrite ? 1 : 0);
        expect(treeOf(join(arena, "outside"))).to.deep.equal(outside);
        if (refusal === null) tally.moved += 1;
        else if (refusal.mutationMayHaveApplied) tally.left += 1;
        else tally.refused += 1;
        const left = Number(refusal?.details["leftUnderTemporaryName"] ?? 0);
        expect(leftovers()).to.be.at.most(left);
        expect(leftovers() === 0 || refusal?.mutationMayHaveApplied).to.equal(true);
      }
    });
});
