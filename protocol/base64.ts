/** Owns base64 as the contract means it: the standard alphabet (RFC 4648 section 4) with padding. */
import { z } from "zod";
import { classified } from "./params.ts";

/** Decoded length of standard base64; NaN when the text is not that. Does not decode. */
function decodedBytes(text: string): number {
  // One character class and a bounded tail: linear, also for a text of megabytes.
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return Number.NaN;
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  return (text.length / 4) * 3 - padding;
}

/** How long the base64 of so many bytes is. */
export function base64Bytes(bytes: number): number {
  return Math.ceil(bytes / 3) * 4;
}

/** A field of standard base64 that decodes to at most `maxBytes`. */
export function base64Field(maxBytes: number) {
  return z
    .string()
    .refine(
      (text) => !Number.isNaN(decodedBytes(text)),
      classified("invalid_base64", "must be standard base64"),
    )
    .refine(
      (text) => !(decodedBytes(text) > maxBytes),
      classified("too_large", `must decode to at most ${maxBytes} bytes`),
    )
    .meta({ contentEncoding: "base64" });
}
