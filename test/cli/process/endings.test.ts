/** Proves how `lemon process run` ends, and what it says, after each receipt and each refusal. */
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import type { ResultOf } from "../../../protocol/methods.ts";
import { bare, base64, completed, NODE_ID } from "../../support/node-rows.ts";
import { GET, ProcessCommand } from "../../support/process-command.ts";

describe("lemon process run, answered,", () => {
  let command: ProcessCommand;
  beforeEach(async () => {
    command = await ProcessCommand.open();
  });
  afterEach(() => command.close());

  const endings: readonly {
    readonly name: string;
    readonly receipt: Partial<ResultOf<"node.process.run">>;
    readonly exitCode: number;
    readonly stderr: RegExp;
  }[] = [
    {
      name: "an exit code of 0",
      receipt: { stderrBase64: base64("warning\n") },
      exitCode: 0,
      stderr: /^warning\n$/,
    },
    { name: "another exit code", receipt: { exitCode: 7 }, exitCode: 7, stderr: /^$/ },
    { name: "the greatest exit code", receipt: { exitCode: 255 }, exitCode: 255, stderr: /^$/ },
    {
      name: "an exit code beyond a byte, which must not read as success",
      receipt: { exitCode: 256 },
      exitCode: 1,
      stderr: /^$/,
    },
    {
      name: "an exit code that is also one of ours",
      receipt: { exitCode: 125 },
      exitCode: 125,
      stderr: /^$/,
    },
    {
      name: "a cut-off output",
      receipt: { outputTruncated: true },
      exitCode: 0,
      stderr: /^lemon: the output was cut off at its bound\n$/,
    },
    {
      name: "an output that is gone",
      receipt: { stdoutBase64: null, stderrBase64: null, outputTruncated: true, exitCode: 3 },
      exitCode: 3,
      stderr: /^lemon: the output is no longer available\n$/,
    },
    {
      name: "a cancellation with an observed end",
      receipt: { state: "cancelled", exitCode: 137 },
      exitCode: 137,
      stderr: /^lemon: the process was cancelled; it ended with 137\n$/,
    },
    {
      name: "a cancellation without an exit",
      receipt: bare("t:1", "cancelled"),
      exitCode: 126,
      stderr: /^lemon: the process was cancelled; no exit was observed\n$/,
    },
    {
      name: "an unknown outcome",
      receipt: bare("t:1", "outcome_unknown"),
      exitCode: 125,
      stderr: /^lemon: nobody saw its end, and this receipt stays so; .* look at its machine\n$/,
    },
    {
      name: "a run that another worker life still has",
      receipt: bare("t:1", "running"),
      exitCode: 125,
      stderr: new RegExp(`still runs\nlemon: ask again with: ${GET}\n$`),
    },
  ];
  const stopped = { state: "cancelled", exitCode: 137 } as const;
  const stops: readonly {
    readonly what: string;
    readonly receipt: Partial<ResultOf<"node.process.run">>;
    readonly afterMs: number;
    readonly exitCode: number;
    readonly stderr: RegExp;
  }[] = [
    {
      what: "too much output",
      receipt: { ...stopped, stdoutBase64: base64("ab"), outputTruncated: true },
      afterMs: 0,
      exitCode: 137,
      stderr:
        /^lemon: the process was stopped: its output reached its bound of 2 B \(--max-output\); it ended with 137$/m,
    },
    {
      what: "too much output, and an exit that is not told",
      receipt: {
        ...stopped,
        exitCode: null,
        stdoutBase64: base64("ab"),
        outputTruncated: true,
      },
      afterMs: 0,
      exitCode: 126,
      stderr: /--max-output\); no exit was observed\nlemon: the output was cut off at its bound\n$/,
    },
    {
      what: "its timeout",
      receipt: stopped,
      afterMs: 1_500,
      exitCode: 137,
      stderr:
        /^lemon: the process was stopped: its time of 1.5 s \(--timeout\) was over; it ended with 137\n$/,
    },
    {
      what: "somebody else, before its time",
      receipt: { ...stopped, outputTruncated: true },
      afterMs: 1_499,
      exitCode: 137,
      stderr: /^lemon: the process was cancelled; it ended with 137$/m,
    },
  ];
  for (const { what, receipt, afterMs, exitCode, stderr } of stops) {
    it(`says what is certain of a stop by ${what}`, async () => {
      command.shell = command.newShell({ timers: command.timers });
      command.peer.on("node.process.run", ({ processId }) => {
        command.timers.oversleep(afterMs);
        return completed(processId, { stdoutBase64: "", stderrBase64: "", ...receipt });
      });
      const flags = ["--timeout", "1500ms", "--max-output", "2", "--id", "t:1"];
      expect(await command.run("worker-1", ...flags, "--", "x")).to.equal(exitCode);
      expect(command.shell.stderr.text).to.match(stderr);
    });
  }

  for (const { name, receipt, exitCode, stderr } of endings) {
    it(`ends with ${exitCode} after ${name}`, async () => {
      command.peer.on("node.process.run", ({ processId }) => completed(processId, receipt));
      expect(await command.run("worker-1", "--id", "t:1", "--", "x")).to.equal(exitCode);
      expect(command.shell.stderr.text).to.match(stderr);
    });

    it(`prints exactly the receipt with --json after ${name}`, async () => {
      command.peer.on("node.process.run", ({ processId }) => completed(processId, receipt));
      expect(await command.run("worker-1", "--json", "--id", "t:1", "--", "x")).to.equal(exitCode);
      expect(command.shell.document).to.deep.equal(completed("t:1", receipt));
    });
  }

  const refusals: readonly {
    readonly error: LemonError;
    readonly exitCode: number;
  }[] = [
    { error: new LemonError("path_not_allowed"), exitCode: 121 },
    { error: new LemonError("executable_not_found"), exitCode: 121 },
    { error: new LemonError("process_receipt_limit"), exitCode: 121 },
    { error: new LemonError("node_offline"), exitCode: 121 },
    { error: new LemonError("invalid_params"), exitCode: 121 },
    { error: new LemonError("durability_unproven"), exitCode: 121 },
    { error: new LemonError("node_not_found"), exitCode: 122 },
    { error: new LemonError("process_id_conflict"), exitCode: 123 },
    { error: new LemonError("timeout", { mutationMayHaveApplied: false }), exitCode: 1 },
  ];
  for (const { error, exitCode } of refusals) {
    it(`ends with ${exitCode} when the answer is ${error.code}, and never sends the run again`, async () => {
      command.peer.on("node.process.run", () => {
        throw error;
      });
      expect(await command.run("worker-1", "--json", "--id", "t:1", "--", "x")).to.equal(exitCode);
      expect(command.shell.stderr.text).to.equal(`lemon: ${error.message}\n`);
      expect(command.shell.document).to.deep.include({
        error: {
          code: error.code,
          message: error.message,
          wireCode: error.wire,
          retrySafe: error.retrySafe,
          mutationMayHaveApplied: false,
          details: {
            code: error.code,
            retrySafe: error.retrySafe,
            mutationMayHaveApplied: false,
          },
          exitCode,
          nodeId: NODE_ID,
          processId: "t:1",
        },
      });
      expect(command.peer.count("node.process.run")).to.equal(1);
    });
  }
});
