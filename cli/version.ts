/** Owns `lemon version`. It needs no controller and little else, so it stays quick. */
import { LEMON_VERSION } from "../protocol/version.ts";
import { EXIT } from "./exit.ts";
import type { Report } from "./report.ts";

export async function version(report: Report): Promise<number> {
  const document = {
    version: LEMON_VERSION,
    node: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
  };
  await report.result(
    document,
    () => `lemon ${document.version} (Node.js ${document.node}, ${document.platform})\n`,
  );
  return EXIT.ok;
}
