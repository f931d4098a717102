import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";

const folder = join(import.meta.dirname, "../../client");

describe("the SDK", () => {
  for (const name of readdirSync(folder).filter((file) => file.endsWith(".ts"))) {
    it(`imports only protocol/, zod and itself in ${name}, so that a browser can load it`, () => {
      const source = readFileSync(join(folder, name), "utf8");
      const imported = [...source.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map(
        ([, specifier]) => specifier,
      );
      const foreign = imported.filter(
        (specifier) =>
          specifier !== "zod" && !/^(\.\/[^/]+|\.\.\/protocol\/.+)$/.test(specifier ?? ""),
      );
      expect(foreign).to.deep.equal([]);
    });
  }
});
