/** Proves what a preview of a delete takes, and what it binds. */
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Anchors } from "../../../host/files/anchors.ts";
import { type DeletePreview, PREVIEW_LIMITS } from "../../../host/files/preview.ts";
import { openDirectory } from "../../../host/native/directory.ts";
import { DeletePlaces } from "../../support/delete-places.ts";
import { asOrdinaryUser, ordinaryUser } from "../../support/file-places.ts";
import { refusalOf } from "../../support/refusal.ts";

describe("a preview", () => {
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

  it("takes no full directory unless asked to go below, though all in it be hidden", async () => {
    mkdirSync(target);
    writeFileSync(join(target, ".hidden"), "");
    expect((await refusalOf(() => preview(target, false))).code).to.equal("directory_not_empty");
  });

  it("takes no root, no state folder, and nothing that holds one", async () => {
    mkdirSync(join(target, "a/root"), { recursive: true });
    const root = openDirectory(join(target, "a/root"));
    places.anchorFds.push(root);
    places.anchors = new Anchors(places.anchorFds);
    for (const path of ["target/a/root", "target/a", "target"])
      expect((await refusalOf(() => preview(join(top, path)))).code).to.equal("path_not_allowed");
  });

  it("finds nothing where nothing is, nor a link that came meanwhile", async () => {
    expect((await refusalOf(() => preview())).code).to.equal("not_found");
    symlinkSync("outside", target);
    expect((await refusalOf(() => preview())).code).to.equal("not_found");
  });

  it("takes 10,000 entries and not one more", async () => {
    mkdirSync(join(target, "sub"), { recursive: true });
    for (let n = 0; n < 9_998; n += 1)
      writeFileSync(join(target, n % 2 === 0 ? `${n}` : `sub/${n}`), "");
    const bound = preview();
    expect(bound.candidateCount).to.equal(10_000);
    writeFileSync(join(target, "sub/more"), "");
    expect((await refusalOf(() => preview())).code).to.equal("preview_too_large");
    unlinkSync(join(target, "sub/more"));
    remove(preview());
    expect(existsSync(target)).to.equal(false);
  });

  it("takes 64 levels below the target and not one more", async () => {
    const deepest = join(target, ...new Array<string>(64).fill("d"));
    mkdirSync(deepest, { recursive: true });
    expect(preview().candidateCount).to.equal(65);
    mkdirSync(join(deepest, "d"));
    expect((await refusalOf(() => preview())).code).to.equal("preview_too_large");
    rmSync(join(deepest, "d"), { recursive: true });
    remove(preview());
    expect(existsSync(target)).to.equal(false);
  });

  it("takes what needs just the bytes of its bound and not one more", async () => {
    anyTree();
    const bytes = preview().candidates.length;
    expect(PREVIEW_LIMITS.bytes).to.equal(8_388_608);
    expect(preview(target, true, { ...PREVIEW_LIMITS, bytes }).candidates.length).to.equal(bytes);
    const less = { ...PREVIEW_LIMITS, bytes: bytes - 1 };
    expect((await refusalOf(() => preview(target, true, less))).code).to.equal("preview_too_large");
  });

  it("keeps the largest tree of the longest names below its bound of bytes", () => {
    mkdirSync(target);
    const name = (n: number) => `${n}`.padStart(255, "x");
    for (let n = 0; n < 9_999; n += 1) writeFileSync(join(target, name(n)), "");
    expect(preview().candidates.length).to.be.below(PREVIEW_LIMITS.bytes);
  });

  it("binds nothing younger than a tick of the clock: a change in the same tick would keep the times", () => {
    writeFileSync(target, "");
    const ageNs = ({ target: { ctimeNs } }: DeletePreview) =>
      BigInt(Date.now()) * 1_000_000n - ctimeNs;
    expect(Number(ageNs(preview()))).to.be.at.least(20_000_000);
  });

  it("is told what an account may not look into", async () => {
    mkdirSync(join(target, "closed/x"), { recursive: true });
    chownSync(top, ordinaryUser(), -1);
    chownSync(target, ordinaryUser(), -1);
    chownSync(join(target, "closed"), ordinaryUser(), -1);
    chmodSync(join(target, "closed"), 0o300);
    const refusal = await refusalOf(() => asOrdinaryUser(() => preview()));
    chmodSync(join(target, "closed"), 0o700);
    expect(refusal.code).to.equal("permission_denied");
  });
});
