/**
 * Owns the one reading of a method's parameters against its declaration, and the sentences that a
 * refusal is made of (control-plane-wire.md 1.5, rulings on `/ws`): missing alone, then types, then bounds.
 */
import type { z } from "zod";
import { type ErrorCode, isErrorCode, LemonError } from "./errors.ts";
import type { Fields, MethodSpec } from "./method.ts";

/**
 * Validates `raw` (what stood in `params`; absent and null read as `{}`; a null member reads as absent).
 * Throws `invalid_params` with the pinned sentence; the sentence names fields, never values.
 */
export function readParams<Params extends Fields>(
  spec: MethodSpec<Params, z.ZodType>,
  raw: unknown,
): z.infer<Params> {
  const given = raw ?? {};
  if (typeof given !== "object" || Array.isArray(given)) {
    throw new LemonError("invalid_params", {
      message: `Type errors: params: expected map, got ${nameOf(given)}`,
    });
  }
  const present = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
  const known = spec.params.shape;

  const missing = Object.keys(known).filter(
    (field) => !(field in present) && !isOptional(known[field]),
  );
  if (missing.length > 0)
    throw new LemonError("invalid_params", {
      message: `Missing required fields: ${missing.join(", ")}`,
    });

  const parsed = spec.params.safeParse(present);
  if (!parsed.success) {
    const { issues } = parsed.error;
    throw new LemonError(classificationOf(issues), { message: sentence(issues, present) });
  }

  if (spec.unknownParams === "refused") {
    const unknown = Object.keys(given).filter((field) => !(field in known));
    if (unknown.length > 0) {
      throw new LemonError("invalid_params", {
        message: `Invalid params: ${unknown.map(shown).join(", ")}: unknown field`,
      });
    }
  }
  return parsed.data;
}

/** For a declaration: a bound whose breach has a classification of its own in the table. */
export function classified(code: ErrorCode, error: string) {
  return { error, params: { code } };
}

/** The one classification that all breaches share, else `invalid_params`. */
function classificationOf(issues: readonly z.core.$ZodIssue[]): ErrorCode {
  const codes = new Set(
    issues.map((issue) => (issue.code === "custom" ? issue.params?.["code"] : undefined)),
  );
  const [code] = codes;
  return codes.size === 1 && isErrorCode(code) ? code : "invalid_params";
}

function isOptional(field: z.core.$ZodType | undefined): boolean {
  return field === undefined || field._zod.optin === "optional";
}

function sentence(
  issues: readonly z.core.$ZodIssue[],
  given: Readonly<Record<string, unknown>>,
): string {
  const types = issues.flatMap((issue) => {
    if (issue.code !== "invalid_type" && issue.code !== "invalid_union") return [];
    const got = nameOf(at(given, issue.path));
    return [`${field(issue.path)}: expected ${expected(issue)}, got ${got}`];
  });
  if (types.length > 0) return `Type errors: ${types.join("; ")}`;
  return `Invalid params: ${issues.map((issue) => `${field(issue.path)}: ${issue.message}`).join("; ")}`;
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

function at(root: unknown, path: readonly PropertyKey[]): unknown {
  let value = root;
  for (const key of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

function field(path: readonly PropertyKey[]): string {
  return path.map((key) => shown(String(key))).join(".");
}

/** A client's own field name goes back to it, but bounded and printable. */
function shown(name: string): string {
  return name.replace(/[^\x20-\x7e]/g, "?").slice(0, 64);
}
