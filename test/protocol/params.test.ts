import { assert } from "chai";
import fc from "fast-check";
import { z } from "zod";
import { isErrorCode, LemonError } from "../../protocol/errors.ts";
import { method } from "../../protocol/method.ts";
import { nodeProcessRun } from "../../protocol/methods/process.ts";
import { METHODS } from "../../protocol/methods.ts";
import { classified, paramsReader, readParams } from "../../protocol/params.ts";

const declared = method({
  name: "test.declared",
  summary: "A method with a field of every kind.",
  scopes: [],
  effect: "read",
  params: z.object({
    name: z.string().max(4, "must be at most 4 characters"),
    count: z.int().min(1, "must be at least 1").optional(),
    on: z.boolean().optional(),
    tags: z.array(z.string()).optional(),
    limits: z.object({ max: z.int() }).optional(),
    either: z.union([z.array(z.string()), z.string()]).optional(),
    nullable: z.string().nullish(),
    path: z
      .string()
      .refine((path) => path !== "..", classified("invalid_path", "must not be .."))
      .optional(),
  }),
  result: z.object({}),
});
const read = paramsReader(declared);

function refusalOf(attempt: () => unknown): LemonError {
  try {
    attempt();
  } catch (failure) {
    assert.instanceOf(failure, LemonError);
    return failure;
  }
  assert.fail("expected a refusal");
}
const sentenceOf = (raw: unknown): string => refusalOf(() => read(raw)).message;

describe("the parameters of a method", () => {
  it("are read as declared; unknown ones are ignored, null members are absent ones", () => {
    assert.deepEqual(read({ name: "n", count: null, more: 1 }), { name: "n" });
  });

  it("may be absent or null altogether when nothing is required", () => {
    const health = METHODS.get("health");
    assert.isDefined(health);
    for (const raw of [undefined, null, {}]) assert.deepEqual(readParams(health, raw), {});
  });

  it("must be an object", () => {
    for (const [raw, got] of [
      [[], "list"],
      ["x", "string"],
      [1, "integer"],
      [true, "boolean"],
    ]) {
      assert.equal(sentenceOf(raw), `Type errors: params: expected map, got ${got}`);
    }
  });

  it("are missing before they are anything else, null ones too, and all are named", () => {
    assert.equal(sentenceOf({ count: "x" }), "Missing required fields: name");
    assert.equal(sentenceOf({ name: null }), "Missing required fields: name");
    assert.equal(
      refusalOf(() => readParams(nodeProcessRun, { nodeId: 1, processId: "p", cwd: ".", argv: [] }))
        .message,
      "Missing required fields: stdinBase64, timeoutMs, maxOutputBytes",
    );
  });

  const TYPES: readonly (readonly [object, string])[] = [
    [{ name: 5 }, "name: expected string, got integer"],
    [{ name: 5.5 }, "name: expected string, got float"],
    [{ name: true }, "name: expected string, got boolean"],
    [{ name: {} }, "name: expected string, got map"],
    [{ name: [] }, "name: expected string, got list"],
    [{ name: "n", count: "1" }, "count: expected integer, got string"],
    [{ name: "n", count: 1.5 }, "count: expected integer, got float"],
    [{ name: "n", on: "true" }, "on: expected boolean, got string"],
    [{ name: "n", tags: {} }, "tags: expected list, got map"],
    [{ name: "n", tags: ["a", 2] }, "tags.1: expected string, got integer"],
    [{ name: "n", limits: "x" }, "limits: expected map, got string"],
    [{ name: "n", limits: { max: null } }, "limits.max: expected integer, got null"],
    [{ name: "n", either: 1 }, "either: expected list or string, got integer"],
    [
      { name: 1, count: "x" },
      "name: expected string, got integer; count: expected integer, got string",
    ],
  ];
  for (const [raw, sentence] of TYPES) {
    it(`of a wrong type read "${sentence}"`, () => {
      assert.equal(sentenceOf(raw), `Type errors: ${sentence}`);
    });
  }

  it("of the right type outside their bound read as invalid, after all type errors", () => {
    assert.equal(
      sentenceOf({ name: "12345" }),
      "Invalid params: name: must be at most 4 characters",
    );
    assert.equal(
      sentenceOf({ name: "12345", on: 1 }),
      "Type errors: on: expected boolean, got integer",
    );
  });

  it("carry the classification of the bound when every breach has the same", () => {
    assert.equal(refusalOf(() => read({ name: "n", path: ".." })).code, "invalid_path");
    assert.equal(refusalOf(() => read({ name: "12345", path: ".." })).code, "invalid_params");
    assert.equal(refusalOf(() => read({ name: 5 })).code, "invalid_params");
  });

  it("are exact where the contract says so, and an unknown one is named, bounded and printable", () => {
    const exact = {
      nodeId: "n",
      processId: "p",
      cwd: ".",
      argv: ["true"],
      stdinBase64: "",
      timeoutMs: 1_000,
      maxOutputBytes: 1,
    };
    assert.doesNotThrow(() => readParams(nodeProcessRun, exact));
    const odd = `a\n${"b".repeat(100)}`;
    assert.equal(
      refusalOf(() => readParams(nodeProcessRun, { ...exact, [odd]: null })).message,
      `Invalid params: a?${"b".repeat(62)}: unknown field`,
    );
  });

  it("never make a refusal long, however many are wrong", () => {
    const tags = Array(9_000).fill(1);
    const sentence = sentenceOf({ name: "n", tags });
    assert.isBelow(sentence.length, 1_000);
    assert.include(sentence, "and 8992 more");
  });

  it("named like members of every object are data", () => {
    const raw: unknown = JSON.parse('{"__proto__":{"name":"x"},"constructor":1,"toString":2}');
    assert.equal(sentenceOf(raw), "Missing required fields: name");
    const whole: unknown = JSON.parse('{"name":"n","__proto__":{"on":true},"constructor":null}');
    assert.deepEqual(read(whole), { name: "n" });
    assert.isUndefined(Reflect.get({}, "on"));
  });

  it("of every declared method are either read or refused with a code of the table", () => {
    fc.assert(
      fc.property(fc.constantFrom(...METHODS.values()), fc.jsonValue(), (spec, raw) => {
        try {
          readParams(spec, raw);
        } catch (failure) {
          assert.instanceOf(failure, LemonError);
          assert.isTrue(isErrorCode(failure.code));
          assert.equal(failure.wire, "INVALID_REQUEST");
        }
      }),
      { numRuns: 500 },
    );
  });

  it("of every declared method are named field by field when their values are anything", () => {
    const specs = [...METHODS.values()].filter((spec) => Object.keys(spec.params.shape).length > 0);
    fc.assert(
      fc.property(
        fc.constantFrom(...specs).chain((spec) => {
          const fields = Object.keys(spec.params.shape);
          const raw = fc.record(Object.fromEntries(fields.map((name) => [name, fc.jsonValue()])));
          return fc.tuple(fc.constant(spec), raw);
        }),
        ([spec, raw]) => {
          try {
            readParams(spec, raw);
          } catch (failure) {
            assert.instanceOf(failure, LemonError);
            assert.match(
              failure.message,
              /^(Missing required fields|Type errors|Invalid params): /,
            );
            assert.isBelow(failure.message.length, 2_000);
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});
