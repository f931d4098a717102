import { expect } from "chai";
import fc from "fast-check";
import { jsonBreach, PASSED_JSON_BOUNDS } from "../../protocol/json-policy.ts";

/** `depth` lists, one in the other. */
function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

describe("JSON that is passed on", () => {
  const { depth, items, bytes } = PASSED_JSON_BOUNDS;

  it("is at most so deep", () => {
    expect(jsonBreach(nested(depth))).to.equal(null);
    expect(jsonBreach(nested(depth + 1))).to.equal("max_depth");
  });

  it("has at most so many members, in all its parts together", () => {
    const half = Array.from({ length: items / 2 - 1 }, () => 1);
    expect(jsonBreach([half, { a: half }])).to.equal("max_items");
    expect(jsonBreach([half, half])).to.equal(null);
    expect(jsonBreach([[...half, 1], half])).to.equal("max_items");
  });

  it("is at most so many bytes of text, in UTF-8", () => {
    const text = "é".repeat((bytes - 2) / 2);
    expect(jsonBreach(text)).to.equal(null);
    expect(jsonBreach(`${text}x`)).to.equal("max_bytes");
  });

  it("is what every reader gets as it was sent", () => {
    for (const text of ["1e999", "[-1e999]", '"\\ud800"', '{"\\udc00":1}', '{"a":["\\ud800x"]}']) {
      expect(jsonBreach(JSON.parse(text)), text).to.equal("not_json_safe");
    }
    for (const text of [
      "1e308",
      '"\\ud83d\\ude00"',
      "null",
      "true",
      "-0",
      '{"__proto__":{"a":1}}',
    ]) {
      expect(jsonBreach(JSON.parse(text)), text).to.equal(null);
    }
    expect(jsonBreach(null)).to.equal(null);
  });

  it("passes whenever it is small, whole text and finite numbers", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6, stringUnit: "binary" }), (value) => {
        expect(jsonBreach(JSON.parse(JSON.stringify(value)))).to.equal(null);
      }),
    );
  });
});
