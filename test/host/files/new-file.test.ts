import {
  closeSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { type NewFile, namedFile, newFile, unnamedFile } from "../../../host/files/new-file.ts";
import { openDirectory } from "../../../host/native/directory.ts";
import { errnoOf, SystemError } from "../../../host/system-error.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

for (const [what, make] of [
  ["that has no name until it is whole", unnamedFile],
  ["under its name from the start", namedFile],
  ["of the better kind", newFile],
] as const) {
  describe(`a new file ${what}`, () => {
    let folder: TempFolder;
    let directory: number;
    beforeEach(() => {
      folder = tempFolder();
      directory = openDirectory(folder.path);
    });
    afterEach(() => {
      closeSync(directory);
      folder[Symbol.dispose]();
    });
    const there = () => readdirSync(folder.path);

    it("is there with all its bytes once it appeared", () => {
      const file = attempt(() => make(directory, "file"));
      if (file === null) return;
      writeSync(file.fd, "bytes");
      file.appear();
      file.close();
      expect(readFileSync(join(folder.path, "file"), "utf8")).to.equal("bytes");
    });

    it("leaves nothing when it did not appear", () => {
      const file = attempt(() => make(directory, "file"));
      if (file === null) return;
      writeSync(file.fd, "bytes");
      expect(there()).to.deep.equal(make === namedFile ? ["file"] : []);
      file.close();
      expect(there()).to.deep.equal([]);
    });

    it("never takes the place of another", () => {
      writeFileSync(join(folder.path, "file"), "other");
      const appear = () => {
        const file = make(directory, "file");
        try {
          file.appear();
        } finally {
          file.close();
        }
      };
      expect(appear)
        .to.throw(SystemError)
        .with.property("code")
        .that.is.oneOf(["EEXIST", "EOPNOTSUPP"]);
      expect(readFileSync(join(folder.path, "file"), "utf8")).to.equal("other");
    });

    it("takes back nothing that came under its name meanwhile", () => {
      const file = attempt(() => make(directory, "file"));
      if (file === null) return;
      writeFileSync(join(folder.path, "other"), "other");
      renameSync(join(folder.path, "other"), join(folder.path, "file"));
      file.close();
      expect(readFileSync(join(folder.path, "file"), "utf8")).to.equal("other");
    });
  });
}

/** Null where this file system has no file without a name. */
function attempt(act: () => NewFile): NewFile | null {
  try {
    return act();
  } catch (failure) {
    if (errnoOf(failure) === "EOPNOTSUPP") return null;
    throw failure;
  }
}
