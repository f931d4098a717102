import { expect } from "chai";
import type { ErrorCode } from "../../protocol/errors.ts";
import { LemonError } from "../../protocol/errors.ts";
import { FILE_BOUNDS, fileRequests } from "../../protocol/files.ts";
import { METHODS } from "../../protocol/methods.ts";
import { readParams } from "../../protocol/params.ts";

const METHOD_NAMES = [...METHODS.keys()].filter((name) => name.startsWith("node.fs."));

function read(method: string, params: object): unknown {
  const spec = METHODS.get(`node.fs.${method}`);
  if (spec === undefined) throw new Error("no such method");
  return readParams(spec, { nodeId: "n", path: "a", ...params });
}

function codeOf(method: string, params: object): ErrorCode | null {
  try {
    read(method, params);
    return null;
  } catch (error) {
    if (!(error instanceof LemonError)) throw error;
    return error.code;
  }
}

const ofBytes = (count: number): string => Buffer.alloc(count).toString("base64");

describe("a file request", () => {
  it("needs admin, whichever it is", () => {
    expect(METHOD_NAMES).to.have.length(8);
    for (const name of METHOD_NAMES) expect(METHODS.get(name)?.scopes).to.deep.equal(["admin"]);
  });

  it("is never one that may be repeated when it changes something", () => {
    const repeatable = METHOD_NAMES.filter((name) => METHODS.get(name)?.retrySafe);
    expect(repeatable.sort()).to.deep.equal([
      "node.fs.delete.preview",
      "node.fs.list",
      "node.fs.read",
      "node.fs.stat",
    ]);
  });

  it("has the contract's defaults", () => {
    expect(read("list", {})).to.include({ showHidden: false });
    expect(read("read", {})).to.include({ offset: 0, length: 1_048_576 });
    expect(read("write", { dataBase64: "" })).to.deep.equal({
      nodeId: "n",
      path: "a",
      dataBase64: "",
      offset: 0,
      truncate: true,
      mkdirs: false,
    });
    expect(read("move", { destination: "b", expectedModifiedAtMs: 1 })).to.include({
      overwrite: false,
    });
    expect(read("delete.preview", {})).to.include({ recursive: false });
  });

  it("takes a path of 4,096 bytes and refuses one of 4,097", () => {
    expect(codeOf("stat", { path: "é".repeat(2_048) })).to.equal(null);
    expect(codeOf("stat", { path: `${"é".repeat(2_048)}a` })).to.equal("invalid_path");
  });

  for (const path of ["", "..", "a/../b", "/..", "a\0b", "\ud800"]) {
    it(`refuses the path ${JSON.stringify(path)}, also as a destination`, () => {
      expect(codeOf("stat", { path })).to.equal("invalid_path");
      const move = { destination: path, expectedModifiedAtMs: 1 };
      expect(codeOf("move", move)).to.equal("invalid_path");
    });
  }

  it("takes two dots that are part of a name", () => {
    expect(codeOf("stat", { path: "..a/b..c/..." })).to.equal(null);
  });

  it("takes offsets from 0 to 9,007,199,254,740,991", () => {
    for (const offset of [0, Number.MAX_SAFE_INTEGER]) {
      expect(codeOf("read", { offset }), String(offset)).to.equal(null);
      expect(codeOf("write", { offset, dataBase64: "" }), String(offset)).to.equal(null);
    }
    for (const offset of [-1, Number.MAX_SAFE_INTEGER + 1, 0.5]) {
      expect(codeOf("read", { offset }), String(offset)).to.equal("invalid_params");
      expect(codeOf("write", { offset, dataBase64: "" }), String(offset)).to.equal(
        "invalid_params",
      );
    }
  });

  it("takes lengths from 1 to 1,048,576", () => {
    for (const length of [1, 1_048_576]) expect(codeOf("read", { length })).to.equal(null);
    for (const length of [0, 1_048_577]) {
      expect(codeOf("read", { length })).to.equal("invalid_params");
    }
  });

  it("takes data of 1 MiB, and refuses a byte more before anybody is asked", () => {
    expect(codeOf("write", { dataBase64: ofBytes(FILE_BOUNDS.chunkBytes) })).to.equal(null);
    expect(codeOf("write", { dataBase64: ofBytes(FILE_BOUNDS.chunkBytes + 1) })).to.equal(
      "too_large",
    );
  });

  for (const data of ["A", "AA", "AAA", "AA=A", "A===", "AAAA\n", "AA-_", " AAAA"]) {
    it(`refuses ${JSON.stringify(data)}, which is not standard base64`, () => {
      expect(codeOf("write", { dataBase64: data })).to.equal("invalid_base64");
    });
  }

  it("names the revision of what it moves", () => {
    expect(codeOf("move", { destination: "b" })).to.equal("invalid_params");
    expect(codeOf("move", { destination: "b", expectedModifiedAtMs: 1.5 })).to.equal(
      "invalid_params",
    );
  });

  it("is bounded at the node, too", () => {
    const write = {
      caller: "c",
      path: "a",
      offset: 0,
      truncate: true,
      mkdirs: false,
      expectedModifiedAtMs: null,
    };
    const taken = (bytes: number): boolean =>
      fileRequests.write.safeParse({ ...write, bytes: new Uint8Array(bytes) }).success;
    expect(taken(FILE_BOUNDS.chunkBytes)).to.equal(true);
    expect(taken(FILE_BOUNDS.chunkBytes + 1)).to.equal(false);
    expect(fileRequests.stat.safeParse({ caller: "c", path: "a/../b" }).success).to.equal(false);
  });
});
