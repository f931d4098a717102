/**
 * Owns `lemon fs mkdir | mv`: changes that are sent once. A lost answer is told with the command that shows
 * what is there.
 */
import type { Client } from "../../client/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import { withController } from "../dial.ts";
import { EXIT, UsageError } from "../exit.ts";
import { selectNode } from "../node/select.ts";
import { pathText } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import { type Place, readPlace, statCommand } from "./place.ts";

export function fsMkdir(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  where: string,
): Promise<number> {
  return change(shell, report, flags, readPlace(where), async (client, nodeId, path) => {
    const document = await client.call("node.fs.mkdir", { nodeId, path });
    return { document, text: `${pathText(document.path)}: created\n` };
  });
}

export interface MoveFlags extends TargetFlags {
  readonly overwrite?: boolean;
}

export function fsMove(
  shell: Shell,
  report: Report,
  flags: MoveFlags,
  from: string,
  to: string,
): Promise<number> {
  const source = readPlace(from);
  const target = readPlace(to);
  if (target.node !== source.node) {
    throw new UsageError("mv stays on one node", "use lemon fs get and lemon fs put between two");
  }
  return change(shell, report, flags, source, async (client, nodeId, path) => {
    const { mtimeMs } = await client.call("node.fs.stat", { nodeId, path });
    const document = await client.call("node.fs.move", {
      nodeId,
      path,
      destination: target.path,
      expectedModifiedAtMs: mtimeMs,
      overwrite: flags.overwrite === true,
    });
    return { document, text: `${pathText(document.destination)}: moved\n` };
  });
}

type Change = (
  client: Client,
  nodeId: string,
  path: string,
) => Promise<{ readonly document: unknown; readonly text: string }>;

/** Sends a change and tells its end; what may have happened is told with the command that shows it. */
export function change(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  { node, path }: Place,
  send: Change,
): Promise<number> {
  return withController(shell, report, flags, async (client, target) => {
    const { nodeId } = await selectNode(client, node);
    try {
      const { document, text } = await send(client, nodeId, path);
      await report.result(document, () => text);
      return EXIT.ok;
    } catch (error) {
      if (!(error instanceof LemonError) || !error.mutationMayHaveApplied) throw error;
      const settle = statCommand(shell, target, nodeId, path);
      const exitCode = await report.failure(error, { nodeId, settle });
      await report.message(`see what is there with: ${settle}`);
      return exitCode;
    }
  });
}
