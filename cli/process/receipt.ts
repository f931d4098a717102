/** Owns what a receipt looks like to a user: its bytes, its words, its exit code. */
import type { ResultOf } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import { bytesText, printable, shellWord, table } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";

export type Receipt = ResultOf<"node.process.get">;

/** One run, as it is named from its start: by the node's durable id and its own. */
export interface RunName {
  readonly nodeId: string;
  readonly nodeName: string;
  readonly processId: string;
  /** How a command on the same controller begins and ends. */
  readonly lemon: string;
  readonly suffix: string;
}

/** The command that asks for the receipt again. */
export function getCommand(run: RunName): string {
  return processCommand("get", run);
}

/** The command that cancels it, or spends its id. */
export function cancelCommand(run: RunName): string {
  return processCommand("cancel", run);
}

function processCommand(verb: "get" | "cancel", run: RunName): string {
  const { nodeId, processId, lemon, suffix } = run;
  const ids = `${shellWord(nodeId)} ${processId}`;
  // An id may begin with a dash; then nothing that could be a flag may follow.
  return processId.startsWith("-")
    ? `${lemon} process ${verb}${suffix} -- ${ids}`
    : `${lemon} process ${verb} ${ids}${suffix}`;
}

/** The exit code of `process run`, and of `process get --output`: the remote one where there is one. */
export function runExitCode(receipt: Receipt): number {
  if (receipt.exitCode !== null) return processExitCode(receipt.exitCode);
  return receipt.state === "running" ? EXIT.unknown : stateExitCode(receipt);
}

/** The exit code of `process get`: what is known, not what the process said. */
export function stateExitCode({ state, exitCode }: Receipt): number {
  switch (state) {
    case "completed":
    case "running":
      return EXIT.ok;
    case "cancelled":
      return exitCode === null ? EXIT.cancelled : EXIT.ok;
    case "outcome_unknown":
      return EXIT.unknown;
    case "not_found":
      return EXIT.notFound;
  }
}

/** A process can end with 0 to 255 (wait(2)); a number beyond must not wrap round to success. */
function processExitCode(exitCode: number): number {
  return exitCode >= 0 && exitCode <= 255 ? exitCode : EXIT.failure;
}

/** Passes the captured bytes through, exactly. */
export async function writeOutputs(shell: Shell, receipt: Receipt): Promise<void> {
  if (receipt.stdoutBase64 !== null)
    await shell.stdout.write(Buffer.from(receipt.stdoutBase64, "base64"));
  if (receipt.stderrBase64 !== null)
    await shell.stderr.write(Buffer.from(receipt.stderrBase64, "base64"));
}

/** Says on stderr what the bytes and the exit code alone would not. */
export async function remark(
  report: Report,
  receipt: Receipt,
  why = "was cancelled",
): Promise<void> {
  const { state, exitCode, stdoutBase64, stderrBase64, outputTruncated } = receipt;
  if (state === "cancelled")
    await report.message(
      exitCode === null
        ? `the process ${why}; no exit was observed`
        : `the process ${why}; it ended with ${exitCode}`,
    );
  if (state === "outcome_unknown") await report.message(LOST_FOR_GOOD);
  // There never was any.
  if (exitCode === null && stdoutBase64 === null && stderrBase64 === null) return;
  if (stdoutBase64 === null || stderrBase64 === null)
    await report.message("the output is no longer available");
  else if (outputTruncated) await report.message("the output was cut off at its bound");
}

export function receiptTable(receipt: Receipt): string {
  const meaning = meaningOf(receipt);
  return table([
    ["process", printable(receipt.processId)],
    ["node", printable(receipt.nodeId)],
    ["state", receipt.state],
    ...(meaning === null ? [] : [["meaning", meaning]]),
    ...(receipt.exitCode === null ? [] : [["exit code", String(receipt.exitCode)]]),
    ...outputRows(receipt),
  ]);
}

/** What a state without an exit tells; null where the exit tells it all. */
function meaningOf({ state, exitCode, stdoutBase64 }: Receipt): string | null {
  if (exitCode !== null) return null;
  switch (state) {
    case "completed":
      return null;
    case "running":
      return "its end is not known yet; ask again later";
    case "cancelled":
      return stdoutBase64 === null
        ? "it never ran, or was stopped and no exit of it was observed; its id is spent"
        : "it was stopped, and what it wrote until then was kept; no exit of that was observed";
    case "outcome_unknown":
      return LOST_FOR_GOOD;
    case "not_found":
      return "its id was never used on this node";
  }
}

/** Nothing was captured of what never ran, or has not ended: then there is nothing to be cut off. */
function outputRows(receipt: Receipt): string[][] {
  const { exitCode, stdoutBase64, stderrBase64, outputTruncated } = receipt;
  if (stdoutBase64 === null && stderrBase64 === null) {
    return exitCode === null ? [] : [["output", "no longer available"]];
  }
  return [
    ["stdout", outputText(stdoutBase64)],
    ["stderr", outputText(stderrBase64)],
    ["cut off", outputTruncated ? "yes, at its bound" : "no"],
  ];
}

/** A receipt that reads `outcome_unknown` never changes: to ask again settles nothing. */
export const LOST_FOR_GOOD =
  "nobody saw its end, and this receipt stays so; it ran at most once: look at its machine";

function outputText(base64: string | null): string {
  return base64 === null ? "no longer available" : bytesText(Buffer.byteLength(base64, "base64"));
}
