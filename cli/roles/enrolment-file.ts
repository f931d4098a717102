/**
 * Owns what a machine keeps of its enrolment as a node (control-plane-wire.md 5.1): one private file
 * a durable id, `nodes/execution/node-<sha256(nodeId)>.json`.
 *
 * 1. A file is used only for the controller it was written for, to the letter.
 * 2. A token is stored before the one it replaces stops being good, so no crash strands the node.
 */
import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { ensurePrivateDirectory, readSecureFile, writeSecureFile } from "../../host/secure-file.ts";
import { LemonError } from "../../protocol/errors.ts";
import { ENROLMENT_FOLDER } from "./home.ts";

const enrolment = z.object({
  /** The `--name` it was joined with; names its folder on this machine. */
  localName: z.string(),
  /** The name in the fleet, which `node.rename` may change. */
  nodeName: z.string(),
  /** Session token; null between approval and the exchange of the challenge. */
  token: z.string().nullable(),
  nodeId: z.string(),
  controller: z.string(),
  /** Recovers the id when the session token is lost or too old; null when it was joined with `--token`. */
  recoveryToken: z.string().nullable(),
  storedAtMs: z.number(),
});
export type Enrolment = Readonly<z.infer<typeof enrolment>>;

function folderOf(home: string): string {
  return join(home, "nodes", ENROLMENT_FOLDER);
}

export async function storeEnrolment(home: string, stored: Enrolment): Promise<void> {
  const folder = folderOf(home);
  await ensurePrivateDirectory(folder);
  const digest = createHash("sha256").update(stored.nodeId).digest("hex");
  await writeSecureFile(join(folder, `node-${digest}.json`), `${JSON.stringify(stored)}\n`);
}

/**
 * The newest enrolment of this local name with this controller, or the one of this very node; null when
 * there is none.
 */
export async function findEnrolment(
  home: string,
  wanted: Pick<Enrolment, "localName" | "controller"> & { readonly nodeId: string | null },
): Promise<Enrolment | null> {
  const { localName, controller, nodeId } = wanted;
  const folder = folderOf(home);
  const files = await readdir(folder).catch(() => []);
  const found = await Promise.all(
    files
      .filter((file) => /^node-[0-9a-f]{64}\.json$/.test(file))
      .map((file) => read(join(folder, file))),
  );
  return (
    found
      .filter((stored) => stored.localName === localName && stored.controller === controller)
      .filter((stored) => nodeId === null || stored.nodeId === nodeId)
      .sort((a, b) => b.storedAtMs - a.storedAtMs)[0] ?? null
  );
}

async function read(path: string): Promise<Enrolment> {
  const bytes = await readSecureFile(path);
  try {
    return enrolment.parse(JSON.parse((bytes ?? Buffer.alloc(0)).toString("utf8")));
  } catch (cause) {
    throw new LemonError("unavailable", {
      message:
        "An enrolment file below nodes/execution/ in LEMON_HOME is damaged; remove it and join with --pair",
      cause,
    });
  } finally {
    bytes?.fill(0);
  }
}
