import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Anchors } from "../../../host/files/anchors.ts";
import { deletePreviewed } from "../../../host/files/delete.ts";
import { moveEntry } from "../../../host/files/move.ts";
import { previewDelete } from "../../../host/files/preview.ts";
import { openDirectory } from "../../../host/native/directory.ts";
import { atPlace, treeOf } from "../../support/file-places.ts";
import { refusalOf } from "../../support/refusal.ts";
import { tempFolder } from "../../support/temp-folder.ts";

/** In a mount namespace of its own: says `ready`, mounts with the first line of its input, ends with the last. */
const KEEPER = `exec unshare --user --map-root-user --mount sh -c '
  echo ready && read -r go && eval "$1" && echo mounted && read -r end' "$0" "$1"`;

const MOUNTS = {
  "another file system": 'mount -t tmpfs lemon-test "$0/tree/sub/inner"',
  "another place of the same file system": 'mount --bind "$0/outside" "$0/tree/sub/inner"',
  "itself, which has the same inode": 'mount --bind "$0/tree/sub/inner" "$0/tree/sub/inner"',
  "a file of elsewhere": 'mount --bind "$0/outside/file" "$0/tree/sub/file"',
} as const;

/** What the keeper sees; undone with the scope. Null where this account may not have one. */
async function keeperOf(folder: string, mount: string) {
  const keeper = spawn("sh", ["-c", KEEPER, folder, mount], { stdio: ["pipe", "pipe", "ignore"] });
  const exited = once(keeper, "exit").catch(() => []);
  const said = () =>
    Promise.race([once(keeper.stdout, "data").then(() => true), exited.then(() => false)]);
  if (!(await said())) return null;
  return {
    path: `/proc/${keeper.pid}/root${folder}`,
    mount: () => {
      keeper.stdin.write("go\n");
      return said();
    },
    async [Symbol.asyncDispose]() {
      keeper.stdin.end("end\n");
      await exited;
    },
  };
}

describe("a mount inside a tree", () => {
  for (const [what, mount] of Object.entries(MOUNTS))
    it(`of ${what} is neither entered nor removed, whenever it came`, async () => {
      using folder = tempFolder();
      for (const path of ["tree/sub/inner", "outside"])
        mkdirSync(join(folder.path, path), { recursive: true });
      for (const path of ["tree/sub/file", "outside/file"])
        writeFileSync(join(folder.path, path), "content");
      await using keeper = await keeperOf(folder.path, mount);
      if (keeper === null) return;
      const tree = join(keeper.path, "tree");
      const anchor = openDirectory(keeper.path);
      try {
        const anchors = new Anchors([anchor]);
        const preview = (path: string) =>
          atPlace(path, (place) => previewDelete(place, true, anchors));
        const { candidates } = preview(tree);
        expect(await keeper.mount()).to.equal(true);
        const before = [treeOf(tree), treeOf(join(folder.path, "outside"))];

        const deleting = await refusalOf(() =>
          atPlace(tree, (place) => deletePreviewed(place, candidates)),
        );
        expect(deleting.code).to.equal("stale_preview");
        expect(deleting.mutationMayHaveApplied).to.equal(false);
        const mounted = join(tree, mount.endsWith('file"') ? "sub/file" : "sub/inner");
        for (const path of [tree, mounted])
          expect(await refusalOf(() => preview(path)))
            .to.include({ code: "cross_device" })
            .and.have.property("message")
            .that.includes("mount point");

        const moving = await refusalOf(() =>
          atPlace(mounted, (from) =>
            atPlace(join(tree, "moved"), (to) =>
              moveEntry({ from, to, demandRevision: () => {}, overwrite: false }, anchors),
            ),
          ),
        );
        expect(moving.code).to.equal("filesystem_busy");
        expect([treeOf(tree), treeOf(join(folder.path, "outside"))]).to.deep.equal(before);
        expect(readdirSync(folder.path).sort()).to.deep.equal(["outside", "tree"]);
      } finally {
        closeSync(anchor);
      }
    });
});
