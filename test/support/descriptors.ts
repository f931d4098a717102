/** Owns the look at this process's own descriptors (/proc/self/fd). */
import { readdirSync, readlinkSync } from "node:fs";

const FOLDER = "/proc/self/fd";

/** How many are open, of every sort. */
export function openDescriptors(): number {
  return readdirSync(FOLDER).length;
}

/**
 * What those lead to that lie in a file system, sorted. A pipe or a socket is not among them: the
 * runtime closes those of a child in its own time.
 */
export function openFiles(): readonly string[] {
  return readdirSync(FOLDER)
    .map(targetOf)
    .filter((target) => target.startsWith("/") && !target.startsWith("/proc/"))
    .sort();
}

/** Empty for the descriptor that the listing itself had. */
function targetOf(descriptor: string): string {
  try {
    return readlinkSync(`${FOLDER}/${descriptor}`);
  } catch {
    return "";
  }
}
