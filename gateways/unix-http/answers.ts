/**
 * Owns what leaves the socket as JSON: how a value is written, and which refusal a failure becomes.
 * Source: wire reference 1.2, rulings ("Host-agent").
 */

import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import { HostAgentError, type HostAgentErrorCode } from "../../protocol/host-agent/errors.ts";
import { codeOf } from "../../supervision/log.ts";

/** No charset: JSON has but one (RFC 8259, 11). */
export const JSON_TYPE = "application/json";

/** `<`, `>`, `&` and the two line separators could mean something to a page that shows the text. */
const ESCAPED = /[<>&\u2028\u2029]/g;

/** JSON and a newline. A bigint is written as the integer it is. */
export function encodeJson(value: unknown): string {
  return `${jsonOf(value).replace(ESCAPED, escaped)}\n`;
}

/** One answer in all has bigints, and what would handle them costs every other one twice its time. */
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return JSON.stringify(value, exact);
  }
}

/** ECMAScript's JSON.rawJSON, which TypeScript's library does not declare yet. */
const { rawJSON } = JSON as typeof JSON & { readonly rawJSON: (text: string) => object };

function exact(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? rawJSON(value.toString()) : value;
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** What failures of the rooms below mean on this side; any other is the route's own. */
const MEANINGS: ReadonlyMap<ErrorCode, HostAgentErrorCode> = new Map([
  ["mailbox_full", "unavailable"],
  ["actor_unavailable", "unavailable"],
  ["message_expired", "unavailable"],
  ["restart_intensity_exceeded", "unavailable"],
  ["receipt_store_unavailable", "unavailable"],
  ["receipt_store_damaged", "unavailable"],
  ["durability_unproven", "unavailable"],
  ["unavailable", "unavailable"],
  ["process_receipt_limit", "too-many-jobs"],
  ["deadline_exceeded", "timeout"],
  ["timeout", "timeout"],
  ["no_space", "no-space"],
]);

/** `unexpected` names what is to be logged: a failure nobody declared. */
export function refusalOf(
  failure: unknown,
  own: HostAgentErrorCode,
): { readonly error: HostAgentError; readonly unexpected: string | null } {
  if (failure instanceof HostAgentError) return { error: failure, unexpected: null };
  const known = failure instanceof LemonError ? MEANINGS.get(failure.code) : undefined;
  if (known !== undefined) return { error: new HostAgentError(known), unexpected: null };
  return { error: new HostAgentError(own), unexpected: codeOf(failure) };
}
