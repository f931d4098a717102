/**
 * Owns native processes as a `/ws` client asks for them: from base64 to the worker's bytes and back, and
 * what a failure on the way says (node-host-io.md, "Receipt meaning and reconciliation").
 *
 * 1. Only the exact durable id names the destination: a name can pass to another node, and its answer
 *    would then be a false absence.
 * 2. A receipt is believed only when it is one, and is the asked node's about the asked process.
 * 3. What may have happened is said with the id and the read that settles it, and is never tried again
 *    here. A failed read is an error, never an absence.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { ConnectionId, NodeId, ProcessId } from "../../protocol/ids.ts";
import {
  nodeProcessCancel,
  nodeProcessGet,
  nodeProcessRun,
} from "../../protocol/methods/process.ts";
import type { ParamsOf, ResultOf } from "../../protocol/methods.ts";
import {
  PROCESS_BOUNDS,
  type ProcessIdRequest,
  type ProcessReceipt,
  type ProcessRunRequest,
  processReceipt,
} from "../../protocol/process.ts";
import type { Caller, MethodHandlers } from "../session/handler.ts";
import type { Directory } from "./directory.ts";
import type { Fleet } from "./fleet.ts";

export type ProcessMethod = "node.process.run" | "node.process.get" | "node.process.cancel";

export interface ProcessMethodsOptions {
  readonly fleet: Fleet;
  readonly directory: Directory;
}

/** Ids, state and framing of a receipt, beside its outputs. */
const RECEIPT_OVERHEAD_BYTES = 1_024;

/** One call to a destination. */
interface Asked {
  readonly method: ProcessMethod;
  readonly mutation: boolean;
  /** Whether the same call may be repeated after a lost answer. */
  readonly retrySafe: boolean;
  readonly params: ProcessRunRequest | ProcessIdRequest;
  readonly deadlineMs: number;
  /** The most that stdout and stderr may hold together. */
  readonly outputBytes: number;
  readonly caller: ConnectionId;
}

type Existing = ResultOf<"node.process.run">;

export function processMethods(options: ProcessMethodsOptions): MethodHandlers<ProcessMethod> {
  const { fleet, directory } = options;

  const ask = async (selector: string, asked: Asked): Promise<ProcessReceipt> => {
    const { nodeId } = directory.byId(selector);
    const { method, mutation, params, deadlineMs, outputBytes, caller } = asked;
    const about = { nodeId, processId: params.processId };
    try {
      const answer = await fleet.call(nodeId, {
        method,
        params,
        capability: method,
        mutation,
        deadlineMs,
        caller,
        answerBytes: outputBytes + RECEIPT_OVERHEAD_BYTES,
      });
      return readReceipt(answer, about, asked);
    } catch (error) {
      if (!(error instanceof LemonError)) throw error;
      throw failed(error, about, asked);
    }
  };

  const askById = (
    spec: typeof nodeProcessGet | typeof nodeProcessCancel,
    params: ParamsOf<"node.process.get">,
    { connectionId }: Caller,
  ): Promise<ProcessReceipt> =>
    ask(params.nodeId, {
      method: spec.name,
      mutation: spec.effect === "mutation",
      retrySafe: spec.retrySafe,
      params: { processId: params.processId },
      deadlineMs: spec.deadlineMs(params),
      outputBytes: PROCESS_BOUNDS.outputBytes.max,
      caller: connectionId,
    });

  return {
    "node.process.run": async (params, caller) => {
      const { nodeId, stdinBase64, ...fields } = params;
      return existing(
        await ask(nodeId, {
          method: nodeProcessRun.name,
          mutation: true,
          retrySafe: nodeProcessRun.retrySafe,
          params: { ...fields, stdin: Buffer.from(stdinBase64, "base64") },
          deadlineMs: nodeProcessRun.deadlineMs(params),
          outputBytes: fields.maxOutputBytes,
          caller: caller.connectionId,
        }),
      );
    },

    "node.process.get": async (params, caller) =>
      toWire(await askById(nodeProcessGet, params, caller)),

    "node.process.cancel": async (params, caller) =>
      existing(await askById(nodeProcessCancel, params, caller)),
  };
}

interface About {
  readonly nodeId: NodeId;
  readonly processId: ProcessId;
}

function readReceipt(answer: unknown, about: About, asked: Asked): ProcessReceipt {
  const read = processReceipt.safeParse(answer);
  if (!read.success || !isAnswer(read.data, about, asked)) {
    throw new LemonError("invalid_remote_payload", { mutationMayHaveApplied: asked.mutation });
  }
  return read.data;
}

/** Whether a receipt, true as it may be, answers what was asked. */
function isAnswer(receipt: ProcessReceipt, about: About, asked: Asked): boolean {
  const { nodeId, processId, state, stdout, stderr } = receipt;
  if (nodeId !== about.nodeId || processId !== about.processId) return false;
  if (asked.mutation && state === "not_found") return false;
  return (stdout?.length ?? 0) + (stderr?.length ?? 0) <= asked.outputBytes;
}

function existing(receipt: ProcessReceipt): Existing {
  const { state, ...fields } = toWire(receipt);
  // `isAnswer` let no absence through for a mutation.
  if (state === "not_found") throw new LemonError("invalid_remote_payload");
  return { ...fields, state };
}

function toWire(receipt: ProcessReceipt): ResultOf<"node.process.get"> {
  const { processId, nodeId, state, exitCode, stdout, stderr, outputTruncated } = receipt;
  return {
    processId,
    nodeId,
    state,
    exitCode,
    stdoutBase64: base64(stdout),
    stderrBase64: base64(stderr),
    outputTruncated,
  };
}

function base64(bytes: Uint8Array | null): string | null {
  if (bytes === null) return null;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

/** The ids are the caller's own: they go back to it so that it can ask what became of them. */
function failed(error: LemonError, about: About, asked: Asked): LemonError {
  const { code, wire, message, retrySafe, mutationMayHaveApplied } = error;
  const details = { ...error.details, ...about };
  if (!mutationMayHaveApplied) {
    const known = { message, wire, retrySafe, mutationMayHaveApplied, details, cause: error };
    return new LemonError(code, known);
  }
  // A node that tells what went wrong keeps its word for it; silence has one name.
  const told = code === "process_stop_failed";
  const settle = `read process ${about.processId} on node ${about.nodeId} with node.process.get`;
  return new LemonError(told ? code : "process_outcome_unknown", {
    message: `${told ? message : "The outcome is unknown"}; ${settle}${asked.retrySafe ? "" : " before anything else"}`,
    wire: wire === "TIMEOUT" ? "TIMEOUT" : "UNAVAILABLE",
    retrySafe: asked.retrySafe,
    mutationMayHaveApplied: true,
    details,
    cause: error,
  });
}
