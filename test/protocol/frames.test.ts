import { assert } from "chai";
import fc from "fast-check";
import { LemonError } from "../../protocol/errors.ts";
import {
  errorFrame,
  JSON_BOUNDS,
  parseRequestFrame,
  REQUEST_ID_MAX_LENGTH,
  responseText,
} from "../../protocol/frames.ts";

function refusalOf(text: string): string {
  const parsed = parseRequestFrame(text);
  assert.isFalse(parsed.ok, "the frame was expected to be refused");
  assert.equal(parsed.error.wire, "INVALID_REQUEST");
  return parsed.error.message;
}

function accepted(text: string) {
  const parsed = parseRequestFrame(text);
  assert.isTrue(parsed.ok, "the frame was expected to be read");
  return parsed.frame;
}

const request = (params: string): string =>
  `{"type":"req","id":"1","method":"health","params":${params}}`;
/** The frame and its four members take one level and four items. */
const FRAME_ITEMS = 4;

describe("a request frame", () => {
  it("is read with its id, method and parameters, and nothing else of it is kept", () => {
    const frame = accepted('{"type":"req","id":"a b","method":"m","params":{"x":1},"more":[1]}');
    assert.deepEqual(frame, { type: "req", id: "a b", method: "m", params: { x: 1 } });
  });

  it("needs no parameters", () => {
    assert.isUndefined(accepted('{"type":"req","id":"","method":"m"}').params);
  });

  const TABLE: readonly (readonly [string, string, string])[] = [
    ["text that is not JSON", "hello", "Invalid JSON: "],
    ["nothing at all", "", "Invalid JSON: "],
    ["two JSON values", '{"type":"req"}{}', "Invalid JSON: "],
    ["a truncated object", '{"type":"req","id":"1"', "Invalid JSON: "],
    ["another type of frame", '{"type":"res","id":"1"}', "expected request frame, got: res"],
    ["a type that is no string", '{"type":7}', "expected request frame, got: number"],
    ["a type of null", '{"type":null}', "expected request frame, got: null"],
    ["no id", '{"type":"req","method":"m"}', "request frame must have id and method"],
    [
      "an id of null",
      '{"type":"req","id":null,"method":"m"}',
      "request frame must have id and method",
    ],
    [
      "a number as id",
      '{"type":"req","id":1,"method":"m"}',
      "request frame must have id and method",
    ],
    ["no method", '{"type":"req","id":"1"}', "request frame must have id and method"],
    [
      "a list as method",
      '{"type":"req","id":"1","method":["m"]}',
      "request frame must have id and method",
    ],
    ["an object without type", '{"id":"1","method":"m"}', "frame must have type field"],
    ["a list", "[]", "frame must have type field"],
    ["a string", '"req"', "frame must have type field"],
    ["a number", "1", "frame must have type field"],
    ["null", "null", "frame must have type field"],
    [
      "a type inherited by way of __proto__",
      '{"__proto__":{"type":"req"}}',
      "frame must have type field",
    ],
  ];
  for (const [what, text, sentence] of TABLE) {
    it(`is refused as "${sentence.trim()}" when it is ${what}`, () => {
      const message = refusalOf(text);
      if (sentence.endsWith(" ")) assert.isTrue(message.startsWith(sentence), message);
      else assert.equal(message, sentence);
    });
  }

  it("is never quoted by its refusal", () => {
    for (const text of [
      "s3cr3t",
      '{"s3cr3t"',
      '{"type":{"s3cr3t":1}}',
      `{"type":"${"s3cr3t".repeat(20)}"}`,
    ]) {
      assert.notInclude(refusalOf(text), "s3cr3t");
    }
  });

  it("may be nested as deep as the bound, and no deeper", () => {
    const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
    accepted(request(nested(JSON_BOUNDS.depth)));
    assert.equal(
      refusalOf(request(nested(JSON_BOUNDS.depth + 1))),
      "Payload violates JSON boundary policy",
    );
    const objects = (levels: number): string =>
      `${'{"a":'.repeat(levels - 1)}{}${"}".repeat(levels - 1)}`;
    accepted(request(objects(JSON_BOUNDS.depth)));
    assert.equal(
      refusalOf(request(objects(JSON_BOUNDS.depth + 1))),
      "Payload violates JSON boundary policy",
    );
  });

  it("may hold as many items as the bound, and not one more", () => {
    const list = (entries: number): string => `[${Array(entries).fill("0").join(" , ")}]`;
    const most = JSON_BOUNDS.items - FRAME_ITEMS;
    accepted(request(list(most)));
    assert.equal(refusalOf(request(list(most + 1))), "Payload violates JSON boundary policy");
  });

  it("may hold brackets, commas and quotes in its strings as it likes", () => {
    const text = JSON.stringify({ text: `${"[{,".repeat(20_000)}"\\"\\` });
    assert.deepEqual(accepted(request(text)).params, JSON.parse(text));
  });

  it("is refused before it is parsed: a text beyond the bounds is not looked at to its end", () => {
    const unfinished = `[${"[],".repeat(1_000_000)}`;
    assert.equal(refusalOf(unfinished), "Payload violates JSON boundary policy");
  });

  it("counts depth and items as a walk over the parsed value would", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 8 }), fc.nat({ max: 40 }), (json, levels) => {
        const text = request(`${"[".repeat(levels)}${json}${"]".repeat(levels)}`);
        assert.equal(
          parseRequestFrame(text).ok,
          measure(JSON.parse(text)).depth <= JSON_BOUNDS.depth,
        );
      }),
    );
    fc.assert(
      fc.property(fc.json({ maxDepth: 4 }), fc.integer({ min: -6, max: 6 }), (json, around) => {
        const items = measure(JSON.parse(json)).items;
        const filler = JSON_BOUNDS.items - FRAME_ITEMS - 2 - items + around;
        fc.pre(filler > 0);
        const text = request(`[[${Array(filler).fill("1").join(",")}],\n${json}]`);
        assert.equal(
          parseRequestFrame(text).ok,
          measure(JSON.parse(text)).items <= JSON_BOUNDS.items,
        );
      }),
      { numRuns: 50 },
    );
  });

  it("never throws, whatever the text", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => void parseRequestFrame(text)));
    fc.assert(
      fc.property(fc.json(), (json) => {
        const parsed = parseRequestFrame(json);
        if (!parsed.ok) assert.instanceOf(parsed.error, LemonError);
      }),
    );
  });

  it("keeps an id as it came: empty, unpaired surrogates, 4,096 units; a longer one is refused", () => {
    for (const id of ["", "\ud800", "\u0000", "é😀", "x".repeat(REQUEST_ID_MAX_LENGTH)]) {
      const frame = accepted(JSON.stringify({ type: "req", id, method: "m" }));
      assert.equal(frame.id, id);
      assert.equal(Object(JSON.parse(responseText(id, {}))).id, id);
    }
    const tooLong = JSON.stringify({
      type: "req",
      id: "x".repeat(REQUEST_ID_MAX_LENGTH + 1),
      method: "m",
    });
    assert.include(refusalOf(tooLong), "at most 4096");
  });

  it("takes the last of two members with one name, as JSON does", () => {
    assert.equal(accepted('{"type":"req","id":"1","id":"2","method":"m"}').id, "2");
  });
});

describe("an answer", () => {
  it("has its payload, also when there is nothing to say", () => {
    assert.equal(responseText("1", undefined), '{"type":"res","id":"1","ok":true,"payload":null}');
    assert.equal(
      responseText("1", { a: 1 }),
      '{"type":"res","id":"1","ok":true,"payload":{"a":1}}',
    );
  });

  it("carries classification, retrySafe and, for a mutation alone, what may have happened", () => {
    const failure = new LemonError("timeout", { details: { retryAfterMs: 5 } });
    assert.deepEqual(errorFrame("1", failure, false), {
      type: "res",
      id: "1",
      ok: false,
      error: {
        code: "TIMEOUT",
        message: "No answer within the deadline",
        details: { retryAfterMs: 5, code: "timeout", retrySafe: false },
      },
    });
    assert.deepEqual(errorFrame("1", failure, true).error.details, {
      retryAfterMs: 5,
      code: "timeout",
      retrySafe: false,
      mutationMayHaveApplied: true,
    });
  });
});

function measure(value: unknown, depth = 0): { depth: number; items: number } {
  if (typeof value !== "object" || value === null) return { depth: 0, items: 0 };
  const members = Object.values(value).map((member) => measure(member, depth + 1));
  return {
    depth: Math.max(depth, ...members.map((member) => member.depth)),
    items: members.length + members.reduce((sum, member) => sum + member.items, 0),
  };
}
