/**
 * Owns the node's own note that a store exists, and which: the first thing that a new store writes
 * and, once it says `ready`, the proof that the rest must be there.
 *
 * 1. `creating` means that no id was ever admitted: whatever is missing may be made.
 * 2. `ready` means that ids may have been admitted: whatever is missing is damage.
 */
import { z } from "zod";
import { readSecureFile, writeSecureFile } from "../../host/secure-file.ts";

const identityNote = z.strictObject({
  version: z.literal(1),
  bucket: z.string(),
  storeId: z.uuid(),
  phase: z.enum(["creating", "ready"]),
});
export type IdentityNote = z.infer<typeof identityNote>;

/**
 * Null when there is none; `damaged` when what stands there is not this bucket's note. Errors:
 * `permission_denied` when it is not as this account left it.
 */
export async function readIdentityNote(
  path: string,
  bucket: string,
): Promise<IdentityNote | null | "damaged"> {
  const bytes = await readSecureFile(path);
  if (bytes === null) return null;
  try {
    const note = identityNote.parse(JSON.parse(bytes.toString("utf8")));
    return note.bucket === bucket ? note : "damaged";
  } catch {
    return "damaged";
  }
}

export async function writeIdentityNote(path: string, note: IdentityNote): Promise<void> {
  await writeSecureFile(path, `${JSON.stringify(note)}\n`);
}
