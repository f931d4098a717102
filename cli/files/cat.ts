/** Owns `lemon fs cat`: the bytes of a file, and nothing else, on stdout. */
import { EXIT, UsageError } from "../exit.ts";
import { selectNode } from "../node/select.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import { readChunks, regularFile } from "./chunks.ts";
import { Link } from "./link.ts";
import { readPlace } from "./place.ts";

/** One JSON document is held in memory as a whole. */
const LARGEST_DOCUMENT_BYTES = 16 * 1_048_576;

export async function fsCat(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  where: string,
): Promise<number> {
  const place = readPlace(where);
  const link = await Link.open(shell, report, flags);
  try {
    const { nodeId } = await selectNode(link.client, place.node);
    const file = await regularFile(link, nodeId, place.path);
    if (report.json && file.size > LARGEST_DOCUMENT_BYTES) {
      throw new UsageError("the file is too large for one JSON document", "use lemon fs get");
    }
    const kept: Buffer[] = [];
    for await (const chunk of readChunks(link, nodeId, file, 0)) {
      if (report.json) kept.push(chunk);
      else await shell.stdout.write(chunk);
      if (shell.stdout.failure !== null) return EXIT.failure;
    }
    if (report.json) {
      const dataBase64 = Buffer.concat(kept).toString("base64");
      await report.result({ ...file, dataBase64 }, () => "");
    }
    return EXIT.ok;
  } finally {
    link.close();
  }
}
