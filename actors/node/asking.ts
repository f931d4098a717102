/**
 * Owns one question to a node's worker whose answer has a declaration: what is sent, and what is believed.
 *
 * 1. An answer is believed only when it is one, and about what was asked; else it is
 *    `invalid_remote_payload`, and a mutation may have been applied.
 */
import type { z } from "zod";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId } from "../../protocol/ids.ts";
import type { Caller } from "../session/handler.ts";
import type { Fleet } from "./fleet.ts";

export interface Question<Method extends string, Answer> {
  readonly spec: {
    /** Of the method, and of the capability that the worker needs. */
    readonly name: Method;
    readonly effect: "read" | "mutation";
  };
  readonly deadlineMs: number;
  readonly request: object;
  readonly answer: z.ZodType<Answer>;
  /** Whether it answers what was asked. */
  readonly isAbout?: (answer: Answer) => boolean;
  /** The longest answer that can come. */
  readonly answerBytes: number;
}

/** Errors: those of the fleet's call, and `invalid_remote_payload`. */
export async function askNode<Answer>(
  fleet: Fleet,
  nodeId: NodeId,
  caller: Caller,
  question: Question<string, Answer>,
): Promise<Answer> {
  const { spec, deadlineMs, request, answer, isAbout, answerBytes } = question;
  const mutation = spec.effect === "mutation";
  const given = await fleet.call(nodeId, {
    method: spec.name,
    params: request,
    capability: spec.name,
    mutation,
    deadlineMs,
    caller: caller.connectionId,
    answerBytes,
  });
  const read = answer.safeParse(given);
  if (read.success && isAbout?.(read.data) !== false) return read.data;
  throw new LemonError("invalid_remote_payload", {
    retrySafe: !mutation,
    mutationMayHaveApplied: mutation,
  });
}
