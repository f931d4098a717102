/**
 * Owns how a zod declaration becomes JSON Schema, so that pages, AsyncAPI and OpenAPI documents say the same.
 *
 * What JSON Schema can not express (a refinement, the sentence of a pattern) is added to the description,
 * in the words that a refusal would use.
 */
import { z } from "zod";

/** What a JSON document is made of. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };

export type JsonSchema = z.core.JSONSchema.BaseSchema;

interface Converted {
  readonly schema: JsonSchema;
  /** Shapes with a name of their own, to which the schema points with `#/definitions/<name>` or `#/$defs/<name>`. */
  readonly shapes: Readonly<Record<string, JsonSchema>>;
}

interface Shapes {
  readonly definitions?: Readonly<Record<string, JsonSchema>>;
  readonly $defs?: Readonly<Record<string, JsonSchema>>;
}

/** `draft-7` is what AsyncAPI 3.0 reads (a superset of it), `draft-2020-12` what OpenAPI 3.1 does. */
type Dialect = "draft-7" | "draft-2020-12";

/** `input`: what a caller may send; `output`: what a reader gets, with members that a newer version may add. */
export function jsonSchemaOf(
  schema: z.ZodType,
  io: "input" | "output",
  dialect: Dialect = "draft-7",
): Converted {
  const { $schema, ...converted }: JsonSchema & Shapes = z.toJSONSchema(schema, {
    target: dialect,
    io,
    override({ zodSchema, jsonSchema }) {
      const text = textOf(zodSchema);
      if (text !== "") jsonSchema.description = text;
      const { def } = zodSchema._zod;
      if (def.type === "object" && def.catchall === undefined)
        delete jsonSchema.additionalProperties;
    },
  });
  const { definitions = {}, $defs = {}, ...inPlace } = converted;
  return { schema: inPlace, shapes: { ...definitions, ...$defs } };
}

/** Its description and, for what is no keyword of JSON Schema, its conditions. */
function textOf(schema: z.core.$ZodType): string {
  const text = descriptionOf(schema);
  const conditions = sentencesOf(schema).join("; ");
  return [text, conditions && `${conditions.slice(0, 1).toUpperCase()}${conditions.slice(1)}.`]
    .filter(Boolean)
    .join(" ");
}

function descriptionOf(schema: z.core.$ZodType): string {
  const own = z.globalRegistry.get(schema)?.description;
  if (own !== undefined) return own;
  const inner = wrapped(schema);
  return inner === null ? "" : descriptionOf(inner);
}

function sentencesOf(schema: z.core.$ZodType): readonly string[] {
  const inner = wrapped(schema);
  if (inner !== null) return sentencesOf(inner);
  const sentences = (schema._zod.def.checks ?? []).flatMap((check) => {
    const { check: kind, error } = check._zod.def;
    // A bound is a keyword, and reads as one; a function takes the issue that it is asked about.
    if ((kind !== "custom" && kind !== "string_format") || error === undefined) return [];
    const said: unknown = Reflect.apply(error, undefined, [{}]);
    return typeof said === "string" ? [said] : [];
  });
  return [...new Set(sentences)];
}

/** What stands inside a wrapper that the JSON Schema does not show as one. */
function wrapped(schema: z.core.$ZodType): z.core.$ZodType | null {
  return schema instanceof z.core.$ZodOptional ||
    schema instanceof z.core.$ZodNullable ||
    schema instanceof z.core.$ZodDefault
    ? schema._zod.def.innerType
    : null;
}
