/** Owns a path on a node as a caller may write it; whether it may be used is the destination's to say. */
import { z } from "zod";
import { classified } from "./params.ts";

/** As Linux bounds a path (path_resolution(7)), in UTF-8 bytes. */
const LONGEST_PATH_BYTES = 4_096;

const utf8 = new TextEncoder();

/** Bounded, without NUL and `..`; all its breaches are `invalid_path`. */
export const nativePath = z
  .string()
  .refine((path) => path !== "", classified("invalid_path", "must not be empty"))
  .refine((path) => path.isWellFormed(), classified("invalid_path", "must be UTF-8 text"))
  .refine((path) => !path.includes("\0"), classified("invalid_path", "must not contain NUL"))
  .refine(
    (path) => utf8.encode(path).length <= LONGEST_PATH_BYTES,
    classified("invalid_path", `must be at most ${LONGEST_PATH_BYTES} bytes`),
  )
  .refine(
    (path) => !path.split("/").includes(".."),
    classified("invalid_path", "must not contain .. components"),
  );
