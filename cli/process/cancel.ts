/**
 * Owns `lemon process cancel`: sent once. A lost answer is settled by reading the receipt; an unused
 * id is spent on a tombstone.
 */
import { CallError } from "../../client/index.ts";
import { connectOptions, withController } from "../dial.ts";
import { EXIT } from "../exit.ts";
import { selectNode } from "../node/select.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import { getCommand, LOST_FOR_GOOD, type Receipt, type RunName, receiptTable } from "./receipt.ts";
import { readProcessId } from "./request.ts";
import { settleByGet } from "./settle.ts";

/** How long a lost answer is asked after, in ms: what the broker waits for a cancel. */
const SETTLE_MS = 30_000;

export function processCancel(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  selector: string,
  id: string,
): Promise<number> {
  const processId = readProcessId("ID", id);
  return withController(shell, report, flags, async (client, target) => {
    const node = await selectNode(client, selector);
    const { nodeId } = node;
    const name: RunName = {
      nodeId,
      nodeName: node.name,
      processId,
      lemon: shell.lemon,
      suffix: target.suffix,
    };
    try {
      const receipt = await client.call("node.process.cancel", { nodeId, processId });
      return await tell(report, name, receipt);
    } catch (error) {
      if (!(error instanceof CallError) || !error.mutationMayHaveApplied) throw error;
      await report.message(`no certain answer (${error.code}); asking for the receipt`);
      const receipt = await settleByGet({
        connect: connectOptions(shell, target),
        timers: shell.timers,
        nodeId,
        processId,
        untilMs: shell.timers.monotonicMs() + SETTLE_MS,
        isSettled,
        signal: new AbortController().signal,
        onClient: () => {},
      });
      if (receipt !== null && isSettled(receipt)) return await tell(report, name, receipt);
      const settle = getCommand(name);
      const exitCode = await report.failure(error, { nodeId, processId, settle });
      await report.message(`ask again with: ${settle}`);
      return exitCode;
    }
  });
}

/** While it runs or is absent, the cancel may still be on its way. */
function isSettled({ state }: Receipt): boolean {
  return state !== "running" && state !== "not_found";
}

async function tell(report: Report, name: RunName, receipt: Receipt): Promise<number> {
  await report.result(receipt, () => receiptTable(receipt));
  if (receipt.state === "cancelled") return EXIT.ok;
  if (receipt.state === "completed") {
    await report.message("it had already ended by itself");
    return EXIT.ok;
  }
  if (receipt.state === "outcome_unknown") {
    await report.message(LOST_FOR_GOOD);
    return EXIT.unknown;
  }
  await report.message(`the cancel settled nothing; ask again with: ${getCommand(name)}`);
  return EXIT.unknown;
}
