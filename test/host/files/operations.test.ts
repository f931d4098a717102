import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { openFileOperations } from "../../../host/files/operations.ts";
import { refusalOf } from "../../support/refusal.ts";
import { tempFolder } from "../../support/temp-folder.ts";

const openDescriptors = () => readdirSync("/proc/self/fd").length;

describe("the operations on files", () => {
  it("hold the roots until they are closed, and start with existing ones only", async () => {
    using folder = tempFolder();
    const before = openDescriptors();
    const spec = { roots: [folder.path], defaultCwd: folder.path, stateFolder: folder.path };
    const files = openFileOperations(spec);
    expect(openDescriptors()).to.be.above(before);
    files.close();
    expect(openDescriptors()).to.equal(before);
    const missing = { ...spec, roots: [join(folder.path, "missing")] };
    expect((await refusalOf(() => openFileOperations(missing))).code).to.equal("not_found");
    expect(openDescriptors()).to.equal(before);
  });
});
