/**
 * Owns `lemon process run`: one run, sent once, and what became of it.
 *
 * 1. The user has the id before anything is sent, and the command that asks again whenever the
 *    outcome is not known at the end.
 * 2. The run is sent once. A lost or uncertain answer is settled by reading.
 * 3. Standard output carries the remote bytes and nothing else (with `--json`, one document).
 */
import { CallError, type Client, type ConnectOptions, connect } from "../../client/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import { connectOptions } from "../dial.ts";
import { selectNode } from "../node/select.ts";
import { bytesText, printable } from "../printable.ts";
import type { FailureContext, Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { resolveTarget, type TargetFlags } from "../target.ts";
import { type InterruptPolicy, Interrupts } from "./interrupt.ts";
import {
  cancelCommand,
  getCommand,
  type Receipt,
  type RunName,
  remark,
  runExitCode,
  writeOutputs,
} from "./receipt.ts";
import { type RequestFlags, type RunRequest, runRequest } from "./request.ts";
import { settleByGet } from "./settle.ts";

export interface RunFlags extends TargetFlags, RequestFlags {
  readonly onInterrupt: InterruptPolicy;
}

export async function processRun(
  shell: Shell,
  report: Report,
  flags: RunFlags,
  selector: string,
  argv: readonly string[],
): Promise<number> {
  const request = await runRequest(shell, flags, argv);
  const target = await resolveTarget(shell, flags);
  if (target.warning !== null) await report.message(target.warning);
  const options = connectOptions(shell, target);
  const client = await connect(options);
  try {
    const node = await selectNode(client, selector);
    const { processId } = request;
    const name: RunName = {
      nodeId: node.nodeId,
      nodeName: node.name,
      processId,
      lemon: shell.lemon,
      suffix: target.suffix,
    };
    if (flags.id === undefined) await report.message(`process id ${processId}`);
    const run = new Run(shell, report, options, client, name, request);
    return await run.finish(flags.onInterrupt);
  } finally {
    client.close();
  }
}

/** What the broker and the control plane wait beyond the run's own timeout, and the way back, in ms. */
const OVERTIME_MS = 10_000;

/** A settlement gets at least this long, also for a run whose time was nearly up, in ms. */
const LEAST_SETTLEMENT_MS = 15_000;

type Ending =
  | { readonly kind: "receipt"; readonly receipt: Receipt }
  /** `receipt`: what could be read after an uncertain answer, though it settles nothing. */
  | { readonly kind: "failed"; readonly error: unknown; readonly receipt: Receipt | null }
  | { readonly kind: "detached" };

class Run {
  readonly #shell: Shell;
  readonly #report: Report;
  readonly #options: ConnectOptions;
  readonly #name: RunName;
  readonly #request: RunRequest;
  readonly #detached = new AbortController();
  readonly #ending = Promise.withResolvers<Ending>();
  #client: Client;
  /** The matter is decided: what still fails afterwards is nobody's concern. */
  #decided = false;
  /** The cancel was sent, and has not failed. */
  #asked = false;
  #answeredAfterMs: number | null = null;

  constructor(
    shell: Shell,
    report: Report,
    options: ConnectOptions,
    client: Client,
    name: RunName,
    request: RunRequest,
  ) {
    this.#shell = shell;
    this.#report = report;
    this.#options = options;
    this.#client = client;
    this.#name = name;
    this.#request = request;
  }

  async finish(policy: InterruptPolicy): Promise<number> {
    const { processId, nodeName } = this.#name;
    const interrupts = new Interrupts(this.#shell, policy, {
      question: `lemon: process ${processId} on ${printable(nodeName)} has not ended`,
      cancel: () => void this.#cancel(),
      detach: () => {
        this.#ending.resolve({ kind: "detached" });
        this.#detached.abort();
      },
    });
    void this.#work().then(
      (ending) => this.#ending.resolve(ending),
      (error: unknown) => this.#ending.resolve({ kind: "failed", error, receipt: null }),
    );
    const ending = await this.#ending.promise;
    this.#decided = true;
    // There is nothing left to cancel or to leave: from here on a signal does what it always does.
    interrupts.stop();
    return this.#tell(ending);
  }

  async #work(): Promise<Ending> {
    const { nodeId } = this.#name;
    const begunAtMs = this.#shell.timers.monotonicMs();
    const overAtMs = begunAtMs + this.#request.timeoutMs + OVERTIME_MS;
    try {
      const params = { nodeId, ...this.#request };
      const receipt = await this.#client.call("node.process.run", params);
      this.#answeredAfterMs = this.#shell.timers.monotonicMs() - begunAtMs;
      return { kind: "receipt", receipt };
    } catch (error) {
      if (!(error instanceof CallError) || !error.mutationMayHaveApplied) throw error;
      if (this.#decided) return { kind: "detached" };
      await this.#report.message(`no certain answer (${error.code}); asking for the receipt`);
      const receipt = await this.#settle(overAtMs);
      return receipt !== null && isFinal(receipt)
        ? { kind: "receipt", receipt }
        : { kind: "failed", error, receipt };
    }
  }

  #settle(overAtMs: number): Promise<Receipt | null> {
    this.#client.close();
    const { timers } = this.#shell;
    return settleByGet({
      connect: this.#options,
      timers,
      nodeId: this.#name.nodeId,
      processId: this.#name.processId,
      untilMs: Math.max(overAtMs, timers.monotonicMs() + LEAST_SETTLEMENT_MS),
      isSettled: isFinal,
      signal: this.#detached.signal,
      onClient: (client) => {
        this.#client = client;
      },
    });
  }

  /** The user's word, sent once. The run's own answer, or the cancel's, ends the matter. */
  async #cancel(): Promise<void> {
    const { nodeId, processId } = this.#name;
    await this.#report.message("cancelling");
    this.#asked = true;
    try {
      const receipt = await this.#client.call("node.process.cancel", { nodeId, processId });
      if (isFinal(receipt)) this.#ending.resolve({ kind: "receipt", receipt });
    } catch (error) {
      if (this.#decided) return;
      if (!(error instanceof LemonError)) throw error;
      this.#asked = false;
      await this.#report.message(`the cancel failed: ${printable(error.message)}`);
      await this.#report.message("still waiting for the run; interrupt again to detach");
    }
  }

  async #tell(ending: Ending): Promise<number> {
    switch (ending.kind) {
      case "receipt":
        return this.#tellReceipt(ending.receipt);
      case "detached":
        return this.#tellUnknown(
          new LemonError("aborted", { message: "Detached; the process may still run" }),
        );
      case "failed":
        return this.#tellFailure(ending.error, ending.receipt);
    }
  }

  async #tellReceipt(receipt: Receipt): Promise<number> {
    if (this.#report.json) await this.#report.result(receipt, () => "");
    else await writeOutputs(this.#shell, receipt);
    await remark(this.#report, receipt, this.#whyStopped(receipt));
    if (receipt.state === "running") {
      await this.#report.message("the process still runs");
      await this.#pointToGet();
    }
    return runExitCode(receipt);
  }

  /** What is certain here of why a run was stopped; the receipt does not tell. */
  #whyStopped({ stdoutBase64, stderrBase64, outputTruncated }: Receipt): string {
    const { maxOutputBytes, timeoutMs } = this.#request;
    const bytes = [stdoutBase64, stderrBase64].reduce(
      (sum, base64) => sum + Buffer.byteLength(base64 ?? "", "base64"),
      0,
    );
    if (outputTruncated && bytes === maxOutputBytes)
      return `was stopped: its output reached its bound of ${bytesText(bytes)} (--max-output)`;
    if (this.#asked) return "was cancelled, as you asked";
    // Only its own answer tells when it ended.
    if (this.#answeredAfterMs !== null && this.#answeredAfterMs >= timeoutMs)
      return `was stopped: its time of ${timeoutMs / 1_000} s (--timeout) was over`;
    return "was cancelled";
  }

  async #tellFailure(error: unknown, receipt: Receipt | null): Promise<number> {
    if (receipt?.state === "running") return this.#tellReceipt(receipt);
    if (!(error instanceof LemonError) || !error.mutationMayHaveApplied) {
      const { nodeId, processId } = this.#name;
      return this.#report.failure(error, { nodeId, processId });
    }
    if (receipt?.state === "not_found") {
      await this.#report.message("the node has no receipt of it: as of now nothing was started");
      await this.#report.message(`to make sure that it never starts: ${cancelCommand(this.#name)}`);
    }
    return this.#tellUnknown(error);
  }

  async #tellUnknown(error: LemonError): Promise<number> {
    const { nodeId, processId } = this.#name;
    const context: FailureContext = { nodeId, processId, settle: getCommand(this.#name) };
    const exitCode = await this.#report.failure(error, context);
    await this.#pointToGet();
    return exitCode;
  }

  #pointToGet(): Promise<void> {
    return this.#report.message(`ask again with: ${getCommand(this.#name)}`);
  }
}

/** Whether the receipt says how the matter ended; `outcome_unknown` is an end, and an honest one. */
function isFinal({ state }: Receipt): boolean {
  return state !== "running" && state !== "not_found";
}
