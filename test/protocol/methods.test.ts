import { expect } from "chai";
import { METHODS } from "../../protocol/methods.ts";

describe("a declared method", () => {
  for (const { name, effect, params, settledBy } of METHODS.values()) {
    if (settledBy === null) continue;
    it(`${name} is settled by a read that is declared, with parameters that both have`, () => {
      const read = METHODS.get(settledBy.method);
      expect(effect).to.equal("mutation");
      expect(read?.effect).to.equal("read");
      expect(Object.keys(params.shape)).to.include.members(settledBy.params);
      const needed = Object.entries(read?.params.shape ?? {}).filter(
        ([, field]) => field._zod.optin === undefined,
      );
      expect(needed.map(([field]) => field).sort()).to.deep.equal([...settledBy.params].sort());
    });
  }
});
