import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { findExecutable } from "../../host/executable.ts";
import { refusalOf } from "../support/refusal.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";

describe("the search for a program", () => {
  let folder: TempFolder;
  let first: string;
  let second: string;
  beforeEach(() => {
    folder = tempFolder();
    first = join(folder.path, "first");
    second = join(folder.path, "second");
    mkdirSync(first);
    mkdirSync(second);
  });
  afterEach(() => folder[Symbol.dispose]());

  function program(where: string, name: string, mode = 0o755): string {
    const path = join(where, name);
    writeFileSync(path, "");
    chmodSync(path, mode);
    return path;
  }
  const search = () => `${first}:${second}`;

  it("takes the first executable file of that name", () => {
    const later = program(second, "tool");
    expect(findExecutable("tool", search())).to.equal(later);
    const sooner = program(first, "tool");
    expect(findExecutable("tool", search())).to.equal(sooner);
  });

  it("passes over what is no file, and what may not be executed", () => {
    mkdirSync(join(first, "tool"));
    program(first, "other", 0o644);
    const tool = program(second, "tool");
    const other = program(second, "other");
    expect(findExecutable("tool", search())).to.equal(tool);
    expect(findExecutable("other", search())).to.equal(other);
  });

  it("follows links, and passes over those that lead nowhere", () => {
    const real = program(second, "real");
    symlinkSync(join(folder.path, "nowhere"), join(first, "tool"));
    symlinkSync(real, join(second, "tool"));
    expect(findExecutable("tool", search())).to.equal(join(second, "tool"));
  });

  it("leaves an absolute path as it is", () => {
    expect(findExecutable("/no/such/program", "")).to.equal("/no/such/program");
  });

  it("never looks where it depends on who stands where", async () => {
    for (const path of ["", ":", ".", "relative:..", `${join(first, "tool")}:`]) {
      program(first, "tool");
      const refusal = await refusalOf(() => findExecutable("tool", path));
      expect(refusal.code, path).to.equal("executable_not_found");
    }
    for (const name of ["./tool", "sub/tool", "../tool"]) {
      const refusal = await refusalOf(() => findExecutable(name, search()));
      expect(refusal.code, name).to.equal("invalid_params");
    }
  });

  it("tells what is missing from what may not be executed", async () => {
    program(first, "plain", 0o644);
    for (const [name, code] of [
      ["plain", "permission_denied"],
      ["missing", "executable_not_found"],
      ["x".repeat(300), "executable_not_found"],
    ] as const) {
      const refusal = await refusalOf(() => findExecutable(name, search()));
      expect(refusal.code).to.equal(code);
      expect(refusal.message).not.to.contain(folder.path);
    }
  });
});
