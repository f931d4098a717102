/**
 * Owns `lemon node rename | revoke | remove`: changes that are sent once. A lost answer is told with
 * the command that shows what is so.
 */
import type { Client } from "../../client/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import { withController } from "../dial.ts";
import { EXIT } from "../exit.ts";
import { printable, shellWord } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import { selectNode } from "./select.ts";

export type NodeChange =
  | { readonly kind: "rename"; readonly name: string }
  | { readonly kind: "revoke" }
  | { readonly kind: "remove" };

export function nodeChange(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  selector: string,
  change: NodeChange,
): Promise<number> {
  return withController(shell, report, flags, async (client, { suffix }) => {
    const node = await selectNode(client, selector);
    try {
      const { document, text } = await send(client, node.nodeId, change);
      await report.result(document, () => `${printable(node.name)} (${node.nodeId}) ${text}\n`);
      return EXIT.ok;
    } catch (error) {
      if (!(error instanceof LemonError) || !error.mutationMayHaveApplied) throw error;
      const settle =
        change.kind === "remove"
          ? `${shell.lemon} node list${suffix}`
          : `${shell.lemon} node show ${shellWord(node.nodeId)}${suffix}`;
      const exitCode = await report.failure(error, { nodeId: node.nodeId, settle });
      await report.message(`see what is so with: ${settle}`);
      return exitCode;
    }
  });
}

async function send(
  client: Client,
  nodeId: string,
  change: NodeChange,
): Promise<{ readonly document: unknown; readonly text: string }> {
  switch (change.kind) {
    case "rename": {
      const document = await client.call("node.rename", { nodeId, name: change.name });
      return { document, text: `is now called ${printable(document.name)}` };
    }
    case "revoke":
      return {
        document: await client.call("node.revoke", { nodeId }),
        text: "is revoked: its link and its tokens are cut off; join it again with --repair",
      };
    case "remove":
      return {
        document: await client.call("node.remove", { nodeId }),
        text: "is removed: its name is free again, its id is not",
      };
  }
}
