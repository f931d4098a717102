/** Owns how the fields of a JSON Schema read as rows of a table. */

import type { JsonSchema } from "../../protocol/json-schema.ts";
import { table } from "./markdown.ts";

type SubSchema = JsonSchema | boolean;

interface Field {
  /** Dotted; `[]` is each entry of a list, `?` one that may be absent. */
  readonly path: string;
  readonly type: string;
  readonly meaning: string;
}

/** The fields of an object and of the objects inside it; null when it has none. */
export function fieldTable(schema: JsonSchema): string | null {
  const rows = fieldsOf(schema, "");
  if (rows.length === 0) return null;
  return table(
    ["field", "type", "meaning"],
    rows.map(({ path, type, meaning }) => [`\`${path}\``, type, meaning]),
  );
}

function fieldsOf(schema: JsonSchema, prefix: string): readonly Field[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, given]) => {
    const required = schema.required?.includes(name) === true;
    const path = `${prefix}${name}`;
    return rowsOf(path, required ? "" : "?", given);
  });
}

function rowsOf(path: string, mark: string, given: SubSchema): readonly Field[] {
  const { schema, nullable } = withoutNull(given);
  const meaning = describedBy(given) || describedBy(schema);
  const type = [typeOf(schema), ...(nullable ? ["null"] : [])].join(" or ");
  const row = { path: `${path}${mark}`, type, meaning };
  if (typeof schema === "boolean") return [row];
  const { items } = schema;
  if (items === undefined || Array.isArray(items)) return [row, ...fieldsOf(schema, `${path}.`)];
  const entries = rowsOf(`${path}[]`, "", items);
  const [entry, ...inside] = entries;
  // A row for each entry only where it says more than "list of".
  return [row, ...(entry !== undefined && entry.meaning !== "" ? [entry] : []), ...inside];
}

/** Draft-07 writes "or null" as another type, or as another alternative. */
function withoutNull(given: SubSchema): { readonly schema: SubSchema; readonly nullable: boolean } {
  if (typeof given === "boolean") return { schema: given, nullable: false };
  const { anyOf, type, ...rest } = given;
  if (Array.isArray(type)) {
    const [only, ...more] = (type as readonly string[]).filter((name) => name !== "null");
    if (only !== undefined && more.length === 0)
      return { schema: { ...rest, type: only } as JsonSchema, nullable: type.length > 1 };
  }
  const [only, ...more] = (anyOf ?? []).filter((one) => !isNull(one));
  if (only !== undefined && more.length === 0) return { schema: only, nullable: true };
  return { schema: given, nullable: false };
}

function isNull(schema: SubSchema): boolean {
  return typeof schema !== "boolean" && schema.type === "null";
}

function describedBy(schema: SubSchema): string {
  return typeof schema === "boolean" ? "" : (schema.description ?? "");
}

/** The name of a shape that has a table of its own. */
function shapeName(ref: string): string {
  return ref.slice(ref.lastIndexOf("/") + 1);
}

function typeOf(schema: SubSchema): string {
  if (typeof schema === "boolean") return "any";
  const { $ref, anyOf, const: constant, enum: values, type, items } = schema;
  if ($ref !== undefined) return `[${shapeName($ref)}](#${shapeName($ref).toLowerCase()})`;
  if (constant !== undefined) return `\`${JSON.stringify(constant)}\``;
  if (values !== undefined) return values.map((value) => `\`${JSON.stringify(value)}\``).join(", ");
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeOf))].join(" or ");
  if (type === "array") {
    const entry = items === undefined || Array.isArray(items) ? "any" : withoutNull(items);
    const of = typeof entry === "string" ? entry : typeOf(entry.schema);
    return withBounds(`list of ${of}`, schema);
  }
  if (type === "object") return isOpen(schema) ? "object of any members" : "object";
  if (Array.isArray(type)) return type.join(" or ");
  return typeof type === "string" ? withBounds(type, schema) : "any";
}

function isOpen({ properties = {}, additionalProperties }: JsonSchema): boolean {
  return Object.keys(properties).length === 0 && typeof additionalProperties === "object";
}

function withBounds(type: string, schema: JsonSchema): string {
  const { contentEncoding, default: fallback } = schema;
  return [
    contentEncoding === undefined ? type : `${type} (${contentEncoding})`,
    rangeOf(schema.minLength, schema.maxLength, "characters"),
    rangeOf(schema.minItems, schema.maxItems, "entries"),
    rangeOf(lowest(schema), highest(schema), ""),
    ...(fallback === undefined ? [] : [`default \`${JSON.stringify(fallback)}\``]),
  ]
    .filter((part) => part !== "")
    .join(", ");
}

/** The bounds that every integer has say nothing. */
function lowest({ minimum, exclusiveMinimum, type }: JsonSchema): number | undefined {
  if (typeof exclusiveMinimum === "number" && type === "integer") return exclusiveMinimum + 1;
  return minimum === Number.MIN_SAFE_INTEGER ? undefined : minimum;
}

function highest({ maximum }: JsonSchema): number | undefined {
  return maximum === Number.MAX_SAFE_INTEGER ? undefined : maximum;
}

function rangeOf(min: number | undefined, max: number | undefined, unit: string): string {
  const range =
    min === undefined
      ? max === undefined
        ? ""
        : `at most ${grouped(max)}`
      : max === undefined
        ? `at least ${grouped(min)}`
        : `${grouped(min)} to ${grouped(max)}`;
  return range === "" || unit === "" ? range : `${range} ${unit}`;
}

/** 1,800,000 */
export function grouped(value: number): string {
  return value.toLocaleString("en-US");
}
