/**
 * Owns the places that deletes are tested in: a target, the outside that has to stay, and the anchors. On disposal
 * no file may be left open.
 */
import { execFileSync } from "node:child_process";
import { closeSync, linkSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Anchors } from "../../host/files/anchors.ts";
import { deletePreviewed } from "../../host/files/delete.ts";
import { type DeletePreview, PREVIEW_LIMITS, previewDelete } from "../../host/files/preview.ts";
import { openDirectory } from "../../host/native/directory.ts";
import { openFiles } from "./descriptors.ts";
import { atPlace } from "./file-places.ts";
import { type TempFolder, tempFolder } from "./temp-folder.ts";

export class DeletePlaces implements Disposable {
  readonly #folder: TempFolder = tempFolder();
  readonly top: string;
  /** Nothing yet. */
  readonly target: string;
  /** Those of `top`, and whatever a test opens. */
  readonly anchorFds: number[];
  anchors: Anchors;
  readonly #open: readonly string[];

  constructor() {
    this.top = this.#folder.path;
    this.target = join(this.top, "target");
    mkdirSync(join(this.top, "outside/kept"), { recursive: true });
    writeFileSync(join(this.top, "outside/kept/file"), "kept");
    this.#open = openFiles();
    this.anchorFds = [openDirectory(this.top)];
    this.anchors = new Anchors(this.anchorFds);
  }

  preview(path = this.target, recursive = true, limits = PREVIEW_LIMITS): DeletePreview {
    return atPlace(path, (place) => previewDelete(place, recursive, this.anchors, limits));
  }

  remove({ candidates }: Pick<DeletePreview, "candidates">, path = this.target): void {
    atPlace(path, (place) => deletePreviewed(place, candidates));
  }

  /** A target with something of every kind in it. */
  anyTree(): void {
    const { top, target } = this;
    mkdirSync(join(target, "sub/deep"), { recursive: true });
    mkdirSync(join(target, "empty"));
    writeFileSync(join(target, ".hidden"), "hidden");
    writeFileSync(join(target, "file"), "file");
    writeFileSync(join(target, "sub/deep/leaf"), "leaf");
    linkSync(join(target, "file"), join(target, "sub/second-name"));
    symlinkSync("../outside/kept", join(target, "to-folder"));
    symlinkSync(join(top, "outside/kept/file"), join(target, "sub/to-file"));
    symlinkSync("nowhere", join(target, "dangling"));
    execFileSync("mkfifo", [join(target, "fifo")]);
    writeFileSync(
      Buffer.concat([Buffer.from(`${target}/`), Buffer.of(0xff, 0x0a, 0x1b)]),
      "no UTF-8",
    );
  }

  [Symbol.dispose](): void {
    for (const fd of this.anchorFds) closeSync(fd);
    expect(openFiles()).to.deep.equal(this.#open);
    this.#folder[Symbol.dispose]();
  }
}
