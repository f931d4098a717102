/**
 * Owns the one reading of a method's parameters against its declaration, and the sentences that a
 * refusal is made of (control-plane-wire.md 1.5, rulings on `/ws`).
 *
 * 1. Missing fields are reported alone; then wrong types; then values outside their bounds.
 * 2. A sentence names fields, types and bounds, never a value, and is bounded whatever was sent.
 * 3. A client's `__proto__` and `constructor` are names like any other, and reach no object but its own.
 */
import type { z } from "zod";
import { type ErrorCode, isErrorCode, LemonError } from "./errors.ts";
import type { Fields, MethodSpec } from "./method.ts";

/**
 * Reads what stood in `params`: absent and null read as `{}`, a null member reads as absent. Throws
 * `invalid_params`, or the one classification that all breaches share.
 */
export type ParamsReader<Params extends Fields> = (raw: unknown) => z.output<Params>;

type Given = Readonly<Record<string, unknown>>;

/** Prepares the reader of a declaration: what can be known of it is worked out once. */
export function paramsReader<Params extends Fields>(
  spec: Pick<MethodSpec<Params>, "params" | "unknownParams">,
): ParamsReader<Params> {
  const known: ReadonlyMap<string, z.core.$ZodType> = new Map(Object.entries(spec.params.shape));
  // Optional, or with a default.
  const required = [...known.keys()].filter((field) => known.get(field)?._zod.optin === undefined);

  return (raw) => {
    const given = paramsMap(raw);
    const missing = required.filter((field) => (given[field] ?? null) === null);
    if (missing.length > 0) refuse(`Missing required fields: ${missing.join(", ")}`);

    const present = withoutNulls(given);
    const parsed = spec.params.safeParse(present);
    if (!parsed.success) {
      const { issues } = parsed.error;
      refuse(sentence(issues, present), classificationOf(issues));
    }
    if (spec.unknownParams === "refused") refuseUnknown(given, known);
    return parsed.data;
  };
}

/** Reads once; whoever reads often keeps a reader. */
export function readParams<Params extends Fields>(
  spec: Pick<MethodSpec<Params>, "params" | "unknownParams">,
  raw: unknown,
): z.output<Params> {
  return paramsReader(spec)(raw);
}

/** What a node is asked, read against its declaration. Throws as `paramsReader`; the sentence names fields alone. */
export function readRequest<T>(schema: z.ZodType<T>, raw: unknown): T {
  const read = schema.safeParse(raw);
  if (read.success) return read.data;
  const { issues } = read.error;
  const field = issues[0]?.path.map((part) => shown(String(part))).join(".") ?? "";
  refuse(
    field === "" ? "Invalid params" : `Invalid params: ${field}`,
    classificationOf(issues.slice(0, 1)),
  );
}

/** For a declaration: a bound whose breach has a classification of its own in the table. */
export function classified(code: ErrorCode, error: string) {
  return { error, params: { code } };
}

function refuse(message: string, code: ErrorCode = "invalid_params"): never {
  throw new LemonError(code, { message });
}

/** What stands in `params`; absent and null read as `{}`. Throws `invalid_params` for anything but an object. */
export function paramsMap(raw: unknown): Given {
  if (raw === undefined || raw === null) return {};
  if (!isMap(raw)) refuse(`Type errors: params: expected map, got ${nameOf(raw)}`);
  return raw;
}

export function isMap(value: unknown): value is Given {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The same object when no member is null, which is nearly always. */
function withoutNulls(given: Given): Given {
  const entries = Object.entries(given);
  return entries.some(([, value]) => value === null)
    ? Object.fromEntries(entries.filter(([, value]) => value !== null))
    : given;
}

function refuseUnknown(given: Given, known: ReadonlyMap<string, unknown>): void {
  const unknown = Object.keys(given).filter((field) => !known.has(field));
  if (unknown.length === 0) return;
  refuse(`Invalid params: ${listed(unknown.map((name) => `${shown(name)}: unknown field`))}`);
}

/** The one classification that all breaches share, else `invalid_params`. */
function classificationOf(issues: readonly z.core.$ZodIssue[]): ErrorCode {
  const codes = new Set(
    issues.map((issue) => (issue.code === "custom" ? issue.params?.["code"] : undefined)),
  );
  const [code] = codes;
  return codes.size === 1 && isErrorCode(code) ? code : "invalid_params";
}

function sentence(issues: readonly z.core.$ZodIssue[], given: Given): string {
  const wrongTypes = issues.filter(
    (issue) => issue.code === "invalid_type" || issue.code === "invalid_union",
  );
  if (wrongTypes.length > 0) {
    return `Type errors: ${listed(
      wrongTypes.map((issue) => {
        const got = nameOf(valueAt(given, issue.path));
        return `${place(issue.path)}: expected ${expected(issue)}, got ${got}`;
      }),
    )}`;
  }
  return `Invalid params: ${listed(issues.map((issue) => `${place(issue.path)}: ${reason(issue)}`))}`;
}

/** More findings than this add nothing; a list of 10,000 wrong entries must not be answered in kind. */
const FINDINGS_SHOWN = 8;

function listed(findings: readonly string[]): string {
  const shownFindings = findings.slice(0, FINDINGS_SHOWN);
  const left = findings.length - shownFindings.length;
  return [...shownFindings, ...(left > 0 ? [`and ${left} more`] : [])].join("; ");
}

/** What a declaration says of a bound; zod's own words where they hold nothing that was sent. */
function reason(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "unrecognized_keys":
      return `unknown field ${listed(issue.keys.map(shown))}`;
    case "invalid_key":
      return "has a key that is not allowed";
    default:
      return issue.message;
  }
}

function expected(issue: z.core.$ZodIssueInvalidType | z.core.$ZodIssueInvalidUnion): string {
  if (issue.code === "invalid_type") return WIRE_TYPE[issue.expected] ?? "any";
  const alternatives = issue.errors
    .flat()
    .flatMap((inner) => (inner.code === "invalid_type" ? [expected(inner)] : []));
  return [...new Set(alternatives)].join(" or ") || "any";
}

const WIRE_TYPE: Readonly<Record<string, string>> = {
  string: "string",
  number: "integer",
  int: "integer",
  boolean: "boolean",
  object: "map",
  record: "map",
  array: "list",
};

/** The name a value's type has in these sentences. */
function nameOf(value: unknown): string {
  if (value === null || value === undefined) return "null";
  if (Array.isArray(value)) return "list";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "float";
  return typeof value === "object" ? "map" : typeof value;
}

function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  let value = root;
  for (const key of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

function place(path: readonly PropertyKey[]): string {
  return path.map((key) => shown(String(key))).join(".");
}

/** A client's own field name goes back to it, but bounded and printable. */
function shown(name: string): string {
  return name.slice(0, 64).replace(/[^\x20-\x7e]/g, "?");
}
