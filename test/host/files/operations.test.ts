import { join } from "node:path";
import { expect } from "chai";
import { openFileOperations } from "../../../host/files/operations.ts";
import { openFiles } from "../../support/descriptors.ts";
import { refusalOf } from "../../support/refusal.ts";
import { tempFolder } from "../../support/temp-folder.ts";

describe("the operations on files", () => {
  it("hold the roots until they are closed, and start with existing ones only", async () => {
    using folder = tempFolder();
    const before = openFiles();
    const spec = { roots: [folder.path], defaultCwd: folder.path, stateFolder: folder.path };
    const files = openFileOperations(spec);
    expect(openFiles()).to.have.lengthOf(before.length + 2);
    files.close();
    expect(openFiles()).to.deep.equal(before);
    const missing = { ...spec, roots: [join(folder.path, "missing")] };
    expect((await refusalOf(() => openFileOperations(missing))).code).to.equal("not_found");
    expect(openFiles()).to.deep.equal(before);
  });
});
