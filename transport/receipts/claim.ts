/** Owns who may open a store: one process, which holds a lock on the folder of the store's own files. */
import { dirname } from "node:path";
import { type FileLock, lockDirectory } from "../../host/file-lock.ts";
import { ensurePrivateDirectory, syncDirectory } from "../../host/secure-file.ts";
import { systemFailure } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";

/**
 * Claims the folder, which is made when it is missing. One process a store: two witnesses of one stream would each
 * miss what the other saw. Errors: `store_in_use`, `permission_denied`.
 */
export async function claimFolder(folder: string): Promise<FileLock> {
  await ensurePrivateDirectory(folder);
  try {
    // The folder's name must not be lost after what it holds was synced.
    await syncDirectory(dirname(folder));
  } catch (failure) {
    throw systemFailure(failure);
  }
  const lock = lockDirectory(folder);
  if (lock === null) throw new LemonError("store_in_use");
  return lock;
}
