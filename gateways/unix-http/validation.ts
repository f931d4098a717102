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
  throw badRequest(issues);
}

/** Of a path or query: everything in it is text. */
export function validText<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw badRequest(parsed.error.issues);
}

function badRequest([first]: readonly z.core.$ZodIssue[]): HostAgentError {
  return first === undefined
    ? new HostAgentError("bad-request")
    : new HostAgentError("bad-request", { message: sentenceOf(first) });
}

/** Zod's own sentences begin with a capital and speak of types; ours name the field already. */
function sentenceOf(issue: z.core.$ZodIssue): string {
  return /^[A-Z]/.test(issue.message) && !issue.message.startsWith("Idempotency-Key")
    ? `${nameOf(issue)} is not acceptable`
    : issue.message;
}

function nameOf({ path }: z.core.$ZodIssue): string {
  return path.length === 0 ? "the body" : path.map(String).join(".");
}

function isWrongType(issue: z.core.$ZodIssue, whole: unknown): boolean {
  const value = issue.path.reduce<unknown>((part, name) => memberOf(part, name), whole);
  if (value === undefined || value === null) return false;
  if (issue.code === "invalid_type") return true;
  // A choice of words takes words.
  return issue.code === "invalid_value" && typeof value !== "string";
}

function memberOf(part: unknown, name: PropertyKey): unknown {
  return typeof part === "object" && part !== null && Object.hasOwn(part, name)
    ? (part as Record<PropertyKey, unknown>)[name]
    : undefined;
}
