/** Proves that bytes which become base64 as they are sent read as the same JSON. */
import { randomBytes } from "node:crypto";
import { assert } from "chai";
import fc from "fast-check";
import { answerText, Base64, LongText } from "../../../actors/session/answer-text.ts";
import { responseText } from "../../../protocol/frames.ts";

const SHORT_BYTES = 16_384;

describe("an answer with bytes in base64", () => {
  it("is the text it always was while the bytes are few, and a long text beyond", () => {
    const text = (bytes: number) =>
      answerText("1", { dataBase64: new Base64(Buffer.alloc(bytes)) });
    assert.isString(text(SHORT_BYTES));
    assert.instanceOf(text(SHORT_BYTES + 1), LongText);
  });

  it("reads as the JSON of the same result, whatever its length, its id and its other fields", () => {
    const bytes = fc.integer({ min: 0, max: 120_000 }).map((length) => randomBytes(length));
    const others = fc.dictionary(
      fc.string().filter((name) => name !== "__proto__" && name !== "dataBase64"),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(fc.string(), bytes, others, (id, content, fields) => {
        const given = answerText(id, { ...fields, dataBase64: new Base64(content) });
        const text = responseText(id, { ...fields, dataBase64: content.toString("base64") });
        assert.deepEqual(JSON.parse(String(given)), JSON.parse(text));
      }),
      { numRuns: 60 },
    );
  });

  it("tells its length beforehand, and comes in fragments no larger than asked for", () => {
    const head = JSON.stringify({ type: "res", path: "€".repeat(40) });
    for (const length of [SHORT_BYTES + 1, 49_151, 49_152, 49_153, 1_048_575, 1_048_576]) {
      const text = new LongText(head, randomBytes(length), '"}}');
      const fragments = [...text.fragments(65_536)].map((fragment) => fragment.length);
      assert.equal(
        fragments.reduce((sum, bytes) => sum + bytes, 0),
        text.length,
      );
      assert.isAtMost(Math.max(...fragments), 65_536 + Buffer.byteLength(head) + 3);
    }
  });

  it("is what a view holds, and nothing around it", () => {
    const around = randomBytes(100_000);
    const view = new Uint8Array(around.buffer, around.byteOffset + 10, 50_000);
    const { payload } = JSON.parse(String(answerText("1", { dataBase64: new Base64(view) })));
    assert.isTrue(Buffer.from(payload.dataBase64, "base64").equals(around.subarray(10, 50_010)));
  });
});
