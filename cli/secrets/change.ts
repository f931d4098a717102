/**
 * Owns `lemon secrets rm | rotate`: changes that are sent once. A lost answer is told with the command that shows
 * what is so, or that may be repeated.
 */
import type { Client } from "../../client/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import { withController } from "../dial.ts";
import { EXIT } from "../exit.ts";
import { selectNode } from "../node/select.ts";
import { counted, printable, shellWord } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";

export function secretsRemove(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  selector: string,
  name: string,
): Promise<number> {
  return change(shell, report, flags, selector, "list", async (client, nodeId) => {
    const document = await client.call("node.secrets.delete", { nodeId: nodeId ?? "", name });
    return { document, text: `${printable(document.name)}: deleted\n` };
  });
}

/** `selector` null: the controller's own machine. */
export function secretsRotate(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  selector: string | null,
): Promise<number> {
  return change(shell, report, flags, selector, "rotate", async (client, nodeId) => {
    const document =
      nodeId === null
        ? await client.call("secrets.rotate", {})
        : await client.call("node.secrets.rotate", { nodeId });
    const { count, behind } = document;
    const late =
      behind.length === 0
        ? ""
        : `not under it yet, and following by itself: ${behind.map((id) => printable(id)).join(", ")}; ask again with: ${shell.lemon} doctor\n`;
    const text = `${counted(count, "secret")} put under a new master key; keep a copy of it\n${late}`;
    return { document, text };
  });
}

async function change(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  selector: string | null,
  settling: "list" | "rotate",
  send: (
    client: Client,
    nodeId: string | null,
  ) => Promise<{ readonly document: unknown; readonly text: string }>,
): Promise<number> {
  return await withController(shell, report, flags, async (client, { suffix }) => {
    const nodeId = selector === null ? null : (await selectNode(client, selector)).nodeId;
    try {
      const { document, text } = await send(client, nodeId);
      await report.result(document, () => text);
      return EXIT.ok;
    } catch (error) {
      if (!(error instanceof LemonError) || !error.mutationMayHaveApplied) throw error;
      const node = nodeId === null ? "" : ` ${shellWord(nodeId)}`;
      const settle = `${shell.lemon} secrets ${settling}${node}${suffix}`;
      const about = nodeId === null ? {} : { nodeId };
      const exitCode = await report.failure(error, { ...about, settle });
      await report.message(
        `${settling === "list" ? "see what is so with" : "do it again with"}: ${settle}`,
      );
      return exitCode;
    }
  });
}
