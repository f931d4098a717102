/**
 * Owns what is known of the files in which an operator hands a controller the keys of a NATS system. They are
 * the operator's to protect, and may be what a platform mounts: that others can read one is told, never refused.
 */
import { stat } from "node:fs/promises";
import type { ExternalNats } from "./options.ts";

export interface HandedFile {
  readonly flag: string;
  readonly path: string;
}

/** What whoever reads it can do. */
const POWERS: Readonly<Record<string, string>> = {
  "--nats-creds": "act as this controller",
  "--nats-sys-creds": "see and end every connection of the NATS system",
  "--nats-operator-key": "make itself an account of the NATS system, or be any node",
};

export function handedFiles(nats: ExternalNats): readonly HandedFile[] {
  return [
    ["--nats-creds", nats.credsFile],
    ["--nats-sys-creds", nats.sysCredsFile],
    ["--nats-operator-key", nats.operatorKeyFile],
  ].flatMap(([flag, path]) => (flag && path ? [{ flag, path }] : []));
}

/** One sentence when group or others may read or change the file by its mode; null when not, or it is gone. */
export async function openness({ flag, path }: HandedFile): Promise<string | null> {
  const stats = await stat(path).catch(() => null);
  if (stats === null || (stats.mode & 0o066) === 0) return null;
  const mode = (stats.mode & 0o777).toString(8).padStart(3, "0");
  const power = POWERS[flag];
  return `the file of ${flag} has mode ${mode}: whoever reads it can ${power ?? "use it"}`;
}
