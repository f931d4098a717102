/**
 * Owns what of one party's JSON is passed on to another (control-plane-wire.md 1.7): the other must be able to
 * read it, within its own bounds.
 */
import { isMap } from "./params.ts";

/** A list or object by itself is at depth 1; each member of any of them is an item. */
export const PASSED_JSON_BOUNDS = { depth: 32, items: 10_000, bytes: 1_048_576 } as const;

/** Which bound does not hold; `not_json_safe` is what no other reader would get as it was sent. */
export type JsonBreach = "max_depth" | "max_items" | "not_json_safe" | "max_bytes";

/** Null when all bounds hold. `value` is what `JSON.parse` gave. */
export function jsonBreach(value: unknown): JsonBreach | null {
  const { bytes, depth, items } = PASSED_JSON_BOUNDS;
  let itemsLeft: number = items;

  const breachOf = (part: unknown, depthLeft: number): JsonBreach | null => {
    if (typeof part === "string") return part.isWellFormed() ? null : "not_json_safe";
    // 1e999 is a number in JSON, and none for whoever reads it as a double.
    if (typeof part === "number") return Number.isFinite(part) ? null : "not_json_safe";
    const list = Array.isArray(part);
    if (!list && !isMap(part)) return null;
    if (depthLeft === 0) return "max_depth";
    const members = list ? part : Object.values(part);
    itemsLeft -= members.length;
    if (itemsLeft < 0) return "max_items";
    if (!list && !Object.keys(part).every((name) => name.isWellFormed())) return "not_json_safe";
    for (const member of members) {
      const breach = breachOf(member, depthLeft - 1);
      if (breach !== null) return breach;
    }
    return null;
  };

  const breach = breachOf(value, depth);
  if (breach !== null) return breach;
  return value !== undefined && Buffer.byteLength(JSON.stringify(value)) > bytes
    ? "max_bytes"
    : null;
}
