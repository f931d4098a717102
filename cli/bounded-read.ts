/** Owns the reading of what a user hands us by path or pipe: whole, but never past a bound. */
import { createReadStream } from "node:fs";
import { resolve } from "node:path";
import type { Readable } from "node:stream";
import { UsageError } from "./exit.ts";

/** The bytes of `source`; a `UsageError` that names `flag` when it can not be read or is too long. */
export async function readWhole(
  flag: string,
  source: Readable,
  limitBytes: number,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of source) {
      const bytes = Buffer.from(chunk);
      length += bytes.length;
      if (length > limitBytes) throw new UsageError(`${flag} must be at most ${limitBytes} bytes`);
      chunks.push(bytes);
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const code = error instanceof Error && "code" in error ? String(error.code) : "unreadable";
    throw new UsageError(`${flag} can not be read (${code})`);
  }
  return Buffer.concat(chunks);
}

/** A file or a pipe that has a name; a relative one is the user's. */
export function openUserFile(cwd: string, path: string): Readable {
  return createReadStream(resolve(cwd, path));
}
