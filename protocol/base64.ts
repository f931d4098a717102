/** Owns base64 as the contract means it: the standard alphabet (RFC 4648 section 4) with padding. */
import { z } from "zod";
import { classified } from "./params.ts";

/** One character class and a bounded tail: linear, also for a text of megabytes. */
function isStandard(text: string): boolean {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}

/** Decoded length of standard base64. Does not decode. */
function decodedBytes(text: string): number {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  return (text.length / 4) * 3 - padding;
}

/** How long the base64 of so many bytes is. */
export function base64Bytes(bytes: number): number {
  return Math.ceil(bytes / 3) * 4;
}

/** A field of standard base64 that decodes to at most `maxBytes`. */
export function base64Field(maxBytes: number) {
  return (
    z
      .string()
      // Once over the text; its length is looked at only when it is base64 at all.
      .refine(isStandard, {
        ...classified("invalid_base64", "must be standard base64"),
        abort: true,
      })
      .refine(
        (text) => decodedBytes(text) <= maxBytes,
        classified("too_large", `must decode to at most ${maxBytes} bytes`),
      )
      .meta({ contentEncoding: "base64" })
  );
}
