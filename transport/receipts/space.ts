/**
 * Owns the question whether the disk takes anything. The answer is a real write, synced: what a file
 * system says of its free space ignores quotas, reserves and whom they are kept for.
 */
import { randomBytes } from "node:crypto";
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../../host/system-error.ts";

/** Room for some hundred receipts: less is as good as none, and the state would only flap. */
const PROBE_BYTES = 256 * 1024;

/** Whether `directory` takes `PROBE_BYTES` now. Any failure but a full disk counts as space. */
export async function hasSpace(directory: string): Promise<boolean> {
  const path = join(directory, "space.probe");
  try {
    const file = await open(path, "w", 0o600);
    try {
      // Random: a file system that compresses takes any number of zeros.
      await file.writeFile(randomBytes(PROBE_BYTES));
      await file.sync();
      return true;
    } finally {
      await file.close();
    }
  } catch (failure) {
    const errno = errnoOf(failure);
    return errno !== "ENOSPC" && errno !== "EDQUOT";
  } finally {
    await rm(path, { force: true });
  }
}
