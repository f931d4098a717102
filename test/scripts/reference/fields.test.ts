import { expect } from "chai";
import { z } from "zod";
import { base64Field } from "../../../protocol/base64.ts";
import { jsonSchemaOf } from "../../../protocol/json-schema.ts";
import { fieldTable } from "../../../scripts/reference/fields.ts";

function rows(schema: z.ZodType, io: "input" | "output" = "input"): readonly string[] {
  const text = fieldTable(jsonSchemaOf(schema, io).schema);
  return text === null ? [] : text.split("\n").slice(2);
}

describe("a table of fields", () => {
  it("names bounds, lists, constants, choices and what may be null or absent", () => {
    expect(
      rows(
        z.object({
          name: z.string().min(1).max(12),
          count: z.int(),
          share: z.number().min(0).max(1_000),
          later: z.int().positive().nullish(),
          kind: z.enum(["a", "b"]),
          ok: z.literal(true),
          tags: z.array(z.string()).max(3).optional(),
          either: z.union([z.string(), z.boolean()]),
          size: z.int().default(5),
        }),
      ),
    ).to.deep.equal([
      "| `name` | string, 1 to 12 characters |  |",
      "| `count` | integer |  |",
      "| `share` | number, 0 to 1,000 |  |",
      "| `later?` | integer, at least 1 or null |  |",
      '| `kind` | `"a"`, `"b"` |  |',
      "| `ok` | `true` |  |",
      "| `tags?` | list of string, at most 3 entries |  |",
      "| `either` | string or boolean |  |",
      "| `size?` | integer, default `5` |  |",
    ]);
  });

  it("gives what no keyword can say in the words of the refusal, after the description", () => {
    expect(
      rows(
        z.object({
          data: base64Field(3).describe("The bytes."),
          id: z.string().regex(/^<+$/, "must be <").nullable().describe("An | id."),
          argv: z.array(z.string().refine(() => true, "must not be evil")),
        }),
      ),
    ).to.deep.equal([
      "| `data` | string (base64) | The bytes. Must be standard base64; must decode to at most 3 bytes. |",
      "| `id` | string or null | An \\| id. Must be &lt;. |",
      "| `argv` | list of string |  |",
      "| `argv[]` | string | Must not be evil. |",
    ]);
  });

  it("goes into objects and the entries of lists", () => {
    const inner = z.object({ a: z.string(), b: z.object({ c: z.null() }).optional() });
    expect(rows(z.object({ one: inner, many: z.array(inner.nullable()) }), "output")).to.deep.equal(
      [
        "| `one` | object |  |",
        "| `one.a` | string |  |",
        "| `one.b?` | object |  |",
        "| `one.b.c` | null |  |",
        "| `many` | list of object |  |",
        "| `many[].a` | string |  |",
        "| `many[].b?` | object |  |",
        "| `many[].b.c` | null |  |",
      ],
    );
  });

  it("is none where there is no field", () => {
    expect(fieldTable(jsonSchemaOf(z.object({}), "input").schema)).to.equal(null);
    expect(
      rows(z.object({ any: z.unknown().optional(), open: z.record(z.string(), z.unknown()) })),
    ).to.deep.equal(["| `any?` | any |  |", "| `open` | object of any members |  |"]);
  });

  it("closes only what refuses other members", () => {
    const closed = (schema: z.ZodType): unknown =>
      jsonSchemaOf(schema, "output").schema.additionalProperties;
    expect(closed(z.strictObject({ a: z.string() }))).to.equal(false);
    expect(closed(z.object({ a: z.string() }))).to.equal(undefined);
  });
});
