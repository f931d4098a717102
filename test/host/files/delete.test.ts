/** Proves what a delete removes of what was previewed, and what it leaves. */
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import { deletePreviewed, type RemovalCalls } from "../../../host/files/delete.ts";
import { removeFolderAt, unlinkAt } from "../../../host/native/entry.ts";
import { SystemError } from "../../../host/system-error.ts";
import type { LemonError } from "../../../protocol/errors.ts";
import { DeletePlaces } from "../../support/delete-places.ts";
import { asOrdinaryUser, atPlace, ordinaryUser, treeOf } from "../../support/file-places.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a delete", () => {
  let places: DeletePlaces;
  let top: string;
  let target: string;

  beforeEach(() => {
    places = new DeletePlaces();
    ({ top, target } = places);
  });
  afterEach(() => places[Symbol.dispose]());

  const preview: DeletePlaces["preview"] = (...how) => places.preview(...how);
  const remove: DeletePlaces["remove"] = (...what) => places.remove(...what);
  const anyTree = () => places.anyTree();

  describe("of what was previewed", () => {
    it("removes a file, and nothing beside it", () => {
      writeFileSync(target, "content");
      const { candidates, childCount, candidateCount } = preview(target, false);
      expect({ childCount, candidateCount }).to.deep.equal({ childCount: 0, candidateCount: 1 });
      remove({ candidates });
      expect(readdirSync(top)).to.deep.equal(["outside"]);
    });

    it("removes an empty directory without being asked to go below", () => {
      mkdirSync(target);
      remove(preview(target, false));
      expect(readdirSync(top)).to.deep.equal(["outside"]);
    });

    it("removes a whole tree: hidden names, links, special files, names that are no UTF-8", () => {
      anyTree();
      const outside = treeOf(join(top, "outside"));
      const { candidates, childCount, candidateCount } = preview();
      expect({ childCount, candidateCount }).to.deep.equal({ childCount: 8, candidateCount: 13 });
      remove({ candidates });
      expect(readdirSync(top)).to.deep.equal(["outside"]);
      expect(treeOf(join(top, "outside"))).to.deep.equal(outside);
    });

    it("removes a socket", async () => {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(target, resolve));
      const bound = preview();
      remove(bound);
      expect(existsSync(target)).to.equal(false);
      await new Promise((resolve) => server.close(resolve));
    });

    it("says of equal children the same, of others not", () => {
      anyTree();
      const { childrenDigest } = preview();
      expect(preview().childrenDigest).to.equal(childrenDigest);
      chmodSync(join(target, "sub/deep/leaf"), 0o600);
      expect(preview().childrenDigest).not.to.equal(childrenDigest);
    });
  });

  /** What may happen to a tree after its preview, each with what it is called. */
  const CHANGES: Readonly<Record<string, () => void>> = {
    "a file that was added": () => writeFileSync(join(target, "sub/added"), ""),
    "a hidden file that was added": () => writeFileSync(join(target, "sub/.added"), ""),
    "a file that was removed": () => unlinkSync(join(target, "sub/deep/leaf")),
    "a file that was replaced by one of the same looks": () => {
      const path = join(target, "sub/deep/leaf");
      const { mtime } = lstatSync(path);
      writeFileSync(`${target}.new`, "leaf");
      renameSync(`${target}.new`, path);
      utimesSync(path, mtime, mtime);
    },
    "a file that was written to": () => appendFileSync(join(target, ".hidden"), "more"),
    "a file that was written to, its time put back": () => {
      const path = join(target, ".hidden");
      execFileSync("touch", ["-r", path, `${top}/outside/reference`]);
      writeFileSync(path, "HIDDEN");
      execFileSync("touch", ["-r", `${top}/outside/reference`, path]);
    },
    "a file that was touched": () => utimesSync(join(target, "file"), 1, 1),
    "a file whose mode was changed and put back": () => {
      const path = join(target, "sub/deep/leaf");
      const { mode } = lstatSync(path);
      chmodSync(path, 0);
      chmodSync(path, mode);
    },
    "a directory whose mode was changed": () => chmodSync(join(target, "empty"), 0o700),
    "a child that came and went": () => {
      writeFileSync(join(target, "empty/x"), "");
      unlinkSync(join(target, "empty/x"));
    },
    "a link that names something else": () => {
      unlinkSync(join(target, "dangling"));
      symlinkSync("nothere", join(target, "dangling"));
    },
    "a file that became a directory": () => {
      unlinkSync(join(target, "sub/deep/leaf"));
      mkdirSync(join(target, "sub/deep/leaf"));
    },
    "a directory that became a link to a tree like it": () => {
      renameSync(join(target, "sub"), join(top, "outside/sub"));
      symlinkSync("../outside/sub", join(target, "sub"));
    },
    "a target whose mode was changed and put back": () => {
      const { mode } = lstatSync(target);
      chmodSync(target, 0o700);
      chmodSync(target, mode);
    },
    "a target that is gone": () => renameSync(target, join(top, "outside/target")),
    "a target that another took the place of": () => {
      renameSync(target, join(top, "outside/target"));
      anyTree();
    },
    "a target that is a link now": () => {
      renameSync(target, join(top, "outside/target"));
      symlinkSync("outside/target", target);
    },
  };

  for (const [change, make] of Object.entries(CHANGES))
    it(`does nothing about ${change}`, async () => {
      anyTree();
      const bound = preview();
      make();
      const before = treeOf(top);
      const refusal = await refusalOf(() => remove(bound));
      expect(refusal.code).to.equal("stale_preview");
      expect(refusal.mutationMayHaveApplied).to.equal(false);
      expect(treeOf(top)).to.deep.equal(before);
    });

  it("holds for any tree and any change: all gone, or all as it was but for the change", () => {
    const name = fc.constantFrom("a", "b", "c", ".h", "n\nl");
    const path = fc.array(name, { minLength: 1, maxLength: 4 });
    const kind = fc.constantFrom("file", "directory", "link", "hard link");
    const tree = fc.array(fc.tuple(path, kind), { maxLength: 12 });
    const action = fc.constantFrom("add", "remove", "replace", "touch", "chmod", "write", "none");
    const seed = fc.nat();
    fc.assert(
      fc.property(tree, action, seed, (entries, act, which) => {
        mkdirSync(target);
        for (const [names, what] of entries) plant(names, what);
        const bound = preview();
        const paths = [...treeOf(target).keys()];
        const victim = paths[which % Math.max(paths.length, 1)];
        const changed = change(act, victim);
        const before = treeOf(target);
        let code = "none";
        try {
          remove(bound);
        } catch (failure) {
          code = failure instanceof Error && "code" in failure ? String(failure.code) : "foreign";
        }
        expect(code).to.equal(changed ? "stale_preview" : "none");
        if (changed) expect(treeOf(target)).to.deep.equal(before);
        expect(readdirSync(top).sort()).to.deep.equal(
          changed ? ["outside", "target"] : ["outside"],
        );
        rmSync(target, { recursive: true, force: true });
      }),
      { numRuns: 80 },
    );
  });

  /** Makes an entry, unless something is in its way. */
  function plant(names: readonly string[], what: string): void {
    const path = join(target, ...names);
    try {
      mkdirSync(join(path, ".."), { recursive: true });
      if (what === "file") writeFileSync(path, names.join(), { flag: "wx" });
      else if (what === "directory") mkdirSync(path);
      else if (what === "link") symlinkSync("../outside", path);
      else linkSync(join(target, "a"), path);
    } catch (failure) {
      if (!(failure instanceof Error)) throw failure;
    }
  }

  /** Whether anything was changed. */
  function change(act: string, victim: string | undefined): boolean {
    if (act === "none") return false;
    const path = join(target, victim ?? ".");
    const stats = lstatSync(path);
    if (act === "add") {
      writeFileSync(join(stats.isDirectory() ? path : join(path, ".."), "added"), "");
    } else if (act === "touch") {
      execFileSync("touch", ["-h", "-r", join(top, "outside"), path]);
    } else if (victim === undefined) {
      chmodSync(path, 0o711);
    } else if (act === "remove") {
      rmSync(path, { recursive: true });
    } else if (act === "replace") {
      rmSync(path, { recursive: true });
      mkdirSync(path);
    } else if (stats.isSymbolicLink()) {
      return false;
    } else if (act === "write" && stats.isFile()) {
      appendFileSync(path, "more");
    } else {
      chmodSync(path, 0o711);
    }
    return true;
  }

  describe("of a tree that changes while it is removed", () => {
    /** Removes, and has `change` happen right before the entry of that number (from 1) is gone. */
    async function interrupted(number: number, change: () => void): Promise<LemonError> {
      const { candidates } = preview();
      let count = 0;
      const first =
        (call: RemovalCalls["unlinkAt"]): RemovalCalls["unlinkAt"] =>
        (directory, name) => {
          count += 1;
          if (count === number) change();
          call(directory, name);
        };
      const calls = { unlinkAt: first(unlinkAt), removeFolderAt: first(removeFolderAt) };
      return await refusalOf(() =>
        atPlace(target, (place) => deletePreviewed(place, candidates, calls)),
      );
    }

    const captured = () =>
      join(top, readdirSync(top).find((entry) => entry.startsWith(".lemon-delete-")) ?? "none");

    beforeEach(() => {
      // Removed in this order: a, b/c, b, d.
      mkdirSync(join(target, "b"), { recursive: true });
      for (const path of ["a", "b/c", "d"]) writeFileSync(join(target, path), path);
    });

    for (const [what, change] of Object.entries<() => void>({
      "a file that is written to": () => appendFileSync(join(captured(), "d"), "more"),
      "a file whose mode is changed and put back": () => {
        const { mode } = lstatSync(join(captured(), "d"));
        chmodSync(join(captured(), "d"), 0o611);
        chmodSync(join(captured(), "d"), mode);
      },
      "a file that another takes the place of": () => {
        renameSync(join(captured(), "d"), join(top, "outside/d"));
        writeFileSync(join(captured(), "d"), "d");
      },
      "a file that a link takes the place of": () => {
        renameSync(join(captured(), "d"), join(top, "outside/d"));
        symlinkSync("../outside/kept", join(captured(), "d"));
      },
    }))
      it(`keeps ${what}, and says that part is gone`, async () => {
        const refusal = await interrupted(1, change);
        expect(refusal.code).to.equal("stale_preview");
        expect(refusal.mutationMayHaveApplied).to.equal(true);
        expect(refusal.details).to.deep.equal({ removed: 3, leftUnderTemporaryName: 0 });
        expect(readdirSync(top).sort()).to.deep.equal(["outside", "target"]);
        expect(readdirSync(target)).to.deep.equal(["d"]);
        expect(readFileSync(join(top, "outside/kept/file"), "utf8")).to.equal("kept");
      });

    for (const [when, number, removed] of [
      ["before its directory is entered", 1, 1],
      ["after its directory was entered", 2, 2],
      ["at the last moment", 3, 2],
    ] as const)
      it(`keeps a file that is added ${when}`, async () => {
        let b = "";
        const refusal = await interrupted(number, () => {
          const [entry = "none"] = readdirSync(captured()).filter((path) =>
            lstatSync(join(captured(), path)).isDirectory(),
          );
          b = join(captured(), entry);
          writeFileSync(join(b, "added"), "added");
        });
        expect(refusal.code).to.equal("stale_preview");
        expect(refusal.details).to.deep.include({ removed, leftUnderTemporaryName: 0 });
        expect(readFileSync(join(target, "b/added"), "utf8")).to.equal("added");
        expect(readFileSync(join(target, "d"), "utf8")).to.equal("d");
      });

    it("keeps a directory whose mode is changed as its last child goes", async () => {
      const refusal = await interrupted(2, () => {
        for (const path of readdirSync(captured()))
          if (path !== "d") chmodSync(join(captured(), path), 0o711);
      });
      expect(refusal.code).to.equal("stale_preview");
      expect(refusal.details).to.deep.equal({ removed: 2, leftUnderTemporaryName: 0 });
      expect(readdirSync(target).sort()).to.deep.equal(["b", "d"]);
    });

    it("replaces nothing that came under an old name: what was captured stays beside it, and is told", async () => {
      const refusal = await interrupted(2, () => {
        mkdirSync(target);
        writeFileSync(join(captured(), "b"), "new");
        appendFileSync(join(captured(), "d"), "more");
      });
      expect(refusal.code).to.equal("stale_preview");
      expect(refusal.mutationMayHaveApplied).to.equal(true);
      expect(refusal.details).to.deep.equal({ removed: 3, leftUnderTemporaryName: 1 });
      expect(readdirSync(target)).to.deep.equal([]);
      expect(readdirSync(captured()).sort()).to.deep.equal(["b", "d"]);
    });

    it("classifies what the system refuses, and puts back what stands", async () => {
      const refusal = await interrupted(2, () => {
        throw new SystemError("unlinkat", "EIO");
      });
      expect(refusal.code).to.equal("unavailable");
      expect(refusal.mutationMayHaveApplied).to.equal(true);
      expect(refusal.retrySafe).to.equal(false);
      expect(refusal.details).to.deep.include({ removed: 1, leftUnderTemporaryName: 0 });
      expect(readFileSync(join(target, "b/c"), "utf8")).to.equal("b/c");
    });
  });

  it("removes nothing of a tree that an account may remove only in part", async () => {
    mkdirSync(join(target, "a/b"), { recursive: true });
    mkdirSync(join(target, "z"));
    for (const path of ["a/1", "a/b/2", "z/3"]) writeFileSync(join(target, path), "");
    for (const path of ["", "target", "target/a", "target/a/b", "target/z"])
      chownSync(join(top, path), ordinaryUser(), -1);
    for (const unwritable of ["z", "a/b", ""]) {
      chmodSync(join(target, unwritable), 0o555);
      const bound = preview();
      const before = treeOf(target);
      const refusal = await refusalOf(() => asOrdinaryUser(() => remove(bound)));
      expect(refusal.code).to.equal("permission_denied");
      expect(refusal.mutationMayHaveApplied).to.equal(false);
      expect(treeOf(target)).to.deep.equal(before);
      chmodSync(join(target, unwritable), 0o755);
    }
    chmodSync(top, 0o555);
    const refusal = await refusalOf(() => asOrdinaryUser(() => remove(preview())));
    expect(refusal.code).to.equal("permission_denied");
    chmodSync(top, 0o700);
    asOrdinaryUser(() => remove(preview()));
    expect(existsSync(target)).to.equal(false);
  });

  it("takes the bytes of a preview whole or not at all", async () => {
    anyTree();
    const { candidates } = preview();
    const before = treeOf(target);
    const damaged = fc.oneof(
      fc.nat({ max: candidates.length - 1 }).map((length) => candidates.slice(0, length)),
      fc
        .tuple(fc.nat({ max: candidates.length - 1 }), fc.integer({ min: 1, max: 255 }))
        .map(([at, flip]) => candidates.map((byte, index) => (index === at ? byte ^ flip : byte))),
      fc.uint8Array(),
    );
    await fc.assert(
      fc.asyncProperty(damaged, async (bytes) => {
        const refusal = await refusalOf(() => remove({ candidates: bytes }));
        expect(refusal.code).to.equal("invalid_confirmation_token");
      }),
      { numRuns: 200 },
    );
    expect(treeOf(target)).to.deep.equal(before);
    remove({ candidates });
    expect(readFileSync(join(top, "outside/kept/file"), "utf8")).to.equal("kept");
  });
});
