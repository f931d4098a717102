/** Owns `lemon process get`: the receipt of an id, or its proven absence. It never starts anything. */
import { withController } from "../dial.ts";
import { selectNode } from "../node/select.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import { receiptTable, remark, runExitCode, stateExitCode, writeOutputs } from "./receipt.ts";
import { readProcessId } from "./request.ts";

export interface GetFlags extends TargetFlags {
  /** Pass the captured bytes and the exit code through, as `process run` would have. */
  readonly output?: boolean;
}

export async function processGet(
  shell: Shell,
  report: Report,
  flags: GetFlags,
  selector: string,
  id: string,
): Promise<number> {
  const processId = readProcessId("ID", id);
  const receipt = await withController(shell, report, flags, async (client) => {
    const { nodeId } = await selectNode(client, selector);
    return client.call("node.process.get", { nodeId, processId });
  });
  if (flags.output !== true) {
    await report.result(receipt, () => receiptTable(receipt));
    return stateExitCode(receipt);
  }
  if (report.json) await report.result(receipt, () => "");
  else await writeOutputs(shell, receipt);
  await remark(report, receipt);
  if (receipt.state === "running" || receipt.state === "not_found")
    await report.message(`state ${receipt.state}`);
  return runExitCode(receipt);
}
