/** Owns `lemon secrets list | receipt`: the names a node has, and what became of an operation. */
import { withController } from "../dial.ts";
import { EXIT } from "../exit.ts";
import { selectNode } from "../node/select.ts";
import { printable } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";

export function secretsList(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  selector: string,
): Promise<number> {
  return withController(shell, report, flags, async (client) => {
    const { nodeId } = await selectNode(client, selector);
    const document = await client.call("node.secrets.list", { nodeId });
    await report.result({ nodeId, ...document }, () =>
      document.names.map((name) => `${printable(name)}\n`).join(""),
    );
    if (document.truncated) await report.message(`only the first ${document.limit} are shown`);
    return EXIT.ok;
  });
}

export function secretsReceipt(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  selector: string,
  operationId: string,
): Promise<number> {
  return withController(shell, report, flags, async (client) => {
    const { nodeId } = await selectNode(client, selector);
    const receipt = await client.call("node.secrets.receipt", { nodeId, operationId });
    const { status, name, currentBindingMatches } = receipt;
    await report.result(receipt, () =>
      status === "applied"
        ? `applied to ${printable(name ?? "")}; ${currentBindingMatches ? "it still stands" : "the secret was changed, expired, deleted or put under another key since"}\n`
        : "not found: no operation with this id was applied\n",
    );
    return status === "applied" ? EXIT.ok : EXIT.notFound;
  });
}
