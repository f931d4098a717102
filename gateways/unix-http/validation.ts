/**
 * Owns the turn from what came over the socket to what a handler is given, by the route's own declaration. A field
 * of the wrong type is `bad-json`, as a parser would have it; a missing or unacceptable one is `bad-request` with
 * the sentence of its declaration. Values are never told back.
 */
import type { z } from "zod";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";

export function validBody<Schema extends z.ZodObject>(
  schema: Schema,
  value: Readonly<Record<string, unknown>>,
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { issues } = parsed.error;
  const wrong = issues.find((issue) => isWrongType(issue, value));
  if (wrong !== undefined) {
    throw new HostAgentError("bad-json", { message: `${nameOf(wrong)} is of the wrong type` });
  }
  throw badRequest(issues, value);
}

/** Of a path or query: everything in it is text. */
export function validText<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw badRequest(parsed.error.issues, value);
}

function badRequest([first]: readonly z.core.$ZodIssue[], whole: unknown): HostAgentError {
  return first === undefined
    ? new HostAgentError("bad-request")
    : new HostAgentError("bad-request", { message: sentenceOf(first, whole) });
}

/** Zod's own sentences begin with a capital and speak of types; ours name the field already. */
function sentenceOf(issue: z.core.$ZodIssue, whole: unknown): string {
  if (!/^[A-Z]/.test(issue.message) || issue.message.startsWith("Idempotency-Key")) {
    return issue.message;
  }
  return `${nameOf(issue)} is ${valueAt(issue, whole) === undefined ? "required" : "not acceptable"}`;
}

function nameOf({ path }: z.core.$ZodIssue): string {
  return path.length === 0 ? "the body" : path.map(String).join(".");
}

function isWrongType(issue: z.core.$ZodIssue, whole: unknown): boolean {
  const value = valueAt(issue, whole);
  if (value === undefined || value === null) return false;
  if (issue.code === "invalid_type") return true;
  // A choice of words takes words, and so does a choice of shapes by a word.
  const isChoice = issue.code === "invalid_value" || issue.code === "invalid_union";
  return isChoice && typeof value !== "string";
}

/** What stands where the issue is; undefined where nothing does. */
function valueAt({ path }: z.core.$ZodIssue, whole: unknown): unknown {
  return path.reduce<unknown>((part, name) => memberOf(part, name), whole);
}

function memberOf(part: unknown, name: PropertyKey): unknown {
  return typeof part === "object" && part !== null && Object.hasOwn(part, name)
    ? (part as Record<PropertyKey, unknown>)[name]
    : undefined;
}
