/**
 * Owns secrets on nodes as a `/ws` client asks for them: a value is sealed here, to the worker life that is
 * to have it, and what a failure on the way says (node-host-io.md, "Write-only encrypted secrets").
 *
 * 1. Only the exact durable id names the destination: a name can pass to another node.
 * 2. Neither a value nor its name leaves this process readable; a value is overwritten once it is sealed.
 * 3. An answer is believed only when it is one, and about what was asked.
 * 4. A mutation is sent once. What may have happened is said with the read that settles it, and is never
 *    tried again here. No error names a secret.
 */
import type { z } from "zod";
import { ERRORS, LemonError } from "../../protocol/errors.ts";
import {
  nodeSecretsDelete,
  nodeSecretsList,
  nodeSecretsReceipt,
  nodeSecretsRotate,
  nodeSecretsSet,
} from "../../protocol/methods/secrets.ts";
import {
  refuseReservedName,
  SECRET_BOUNDS,
  secretAnswers,
  type secretRequests,
} from "../../protocol/secrets.ts";
import { type Sealed, sealFor } from "../../transport/keys/sealing.ts";
import type { Caller, MethodHandlers } from "../session/handler.ts";
import { askNode, type Question } from "./asking.ts";
import type { Directory } from "./directory.ts";
import type { Fleet } from "./fleet.ts";
import type { NodeRecord } from "./record.ts";

export type SecretMethod =
  | "node.secrets.set"
  | "node.secrets.list"
  | "node.secrets.delete"
  | "node.secrets.receipt"
  | "node.secrets.rotate";

export interface SecretMethodsOptions {
  readonly fleet: Fleet;
  readonly directory: Directory;
}

/** Ids, one name and the framing of an answer. */
const ANSWER_BYTES = 2_048;
/** A name and what frames it. */
const NAME_BYTES = SECRET_BOUNDS.nameBytes + 8;

/** One call to a destination. */
interface Asked<Answer> extends Omit<Question<SecretMethod, Answer>, "answerBytes"> {
  readonly spec: Question<SecretMethod, Answer>["spec"] & { readonly retrySafe: boolean };
  readonly answerBytes?: number;
  readonly operationId?: string | undefined;
}

type RequestTo<M extends keyof typeof secretRequests> = z.infer<(typeof secretRequests)[M]>;

export function secretMethods({
  fleet,
  directory,
}: SecretMethodsOptions): MethodHandlers<SecretMethod> {
  const ask = async <Answer>(
    { nodeId }: NodeRecord,
    caller: Caller,
    asked: Asked<Answer>,
  ): Promise<Answer> => {
    try {
      return await askNode(fleet, nodeId, caller, { answerBytes: ANSWER_BYTES, ...asked });
    } catch (error) {
      if (!(error instanceof LemonError) || !error.mutationMayHaveApplied) throw error;
      throw uncertain(error, { nodeId, operationId: asked.operationId, spec: asked.spec });
    }
  };

  return {
    "node.secrets.set": async (params, caller) => {
      const { name, value, operationId } = params;
      refuseReservedName(name);
      const record = directory.byId(params.nodeId);
      const { life } = record;
      // The actor of the node refuses for the same reason, and says it the same way.
      if (life === null) throw new LemonError("node_offline");
      return await ask(record, caller, {
        spec: nodeSecretsSet,
        deadlineMs: nodeSecretsSet.deadlineMs(params),
        request: sealed(life.sealKey, { name, operationId: operationId ?? null }, value),
        answer: secretAnswers.set,
        isAbout: (answer) => answer.name === name && answer.operationId === operationId,
        operationId,
      });
    },

    "node.secrets.list": async (params, caller) =>
      await ask(directory.byId(params.nodeId), caller, {
        spec: nodeSecretsList,
        deadlineMs: nodeSecretsList.deadlineMs(params),
        request: {} satisfies RequestTo<"list">,
        answer: secretAnswers.list,
        answerBytes: ANSWER_BYTES + SECRET_BOUNDS.listed * NAME_BYTES,
      }),

    "node.secrets.delete": async (params, caller) => {
      const { name } = params;
      refuseReservedName(name);
      return await ask(directory.byId(params.nodeId), caller, {
        spec: nodeSecretsDelete,
        deadlineMs: nodeSecretsDelete.deadlineMs(params),
        request: { name } satisfies RequestTo<"delete">,
        answer: secretAnswers.delete,
        isAbout: (answer) => answer.name === name,
      });
    },

    "node.secrets.rotate": async (params, caller) =>
      await ask(directory.byId(params.nodeId), caller, {
        spec: nodeSecretsRotate,
        deadlineMs: nodeSecretsRotate.deadlineMs(params),
        request: {} satisfies RequestTo<"rotate">,
        answer: secretAnswers.rotate,
      }),

    "node.secrets.receipt": async (params, caller) => {
      const record = directory.byId(params.nodeId);
      const { operationId } = params;
      const answer = await ask(record, caller, {
        spec: nodeSecretsReceipt,
        deadlineMs: nodeSecretsReceipt.deadlineMs(params),
        request: { operationId } satisfies RequestTo<"receipt">,
        answer: secretAnswers.receipt,
        isAbout: (read) => read.operationId === operationId,
      });
      return { nodeId: record.nodeId, ...answer };
    },
  };
}

function sealed(recipient: string, about: object, value: string): Sealed {
  const bytes = Buffer.from(value, "utf8");
  try {
    return sealFor(recipient, about, bytes);
  } finally {
    bytes.fill(0);
  }
}

interface About {
  readonly nodeId: string;
  readonly operationId: string | undefined;
  readonly spec: Asked<unknown>["spec"];
}

/** A node that tells what went wrong keeps its word for it; silence has one name. */
function uncertain(error: LemonError, about: About): LemonError {
  const { code, wire, message } = error;
  const { nodeId, operationId, spec } = about;
  const isSilence = ERRORS[code].outcome === "unknown";
  return new LemonError(isSilence ? "secret_outcome_unknown" : code, {
    message: `${isSilence ? "The outcome is unknown" : message}; ${settling(about)}`,
    wire: isSilence && wire !== "TIMEOUT" ? "UNAVAILABLE" : wire,
    retrySafe: spec.retrySafe,
    mutationMayHaveApplied: true,
    details: { ...error.details, nodeId, ...(operationId === undefined ? {} : { operationId }) },
    cause: error,
  });
}

function settling({ nodeId, operationId, spec }: About): string {
  if (spec.name === nodeSecretsRotate.name) return `rotate again on node ${nodeId}`;
  if (spec.name === nodeSecretsDelete.name) {
    return `read the names on node ${nodeId} with node.secrets.list before anything else`;
  }
  return operationId === undefined
    ? `without an operationId nothing can tell: decide what is to be, and set it with one on node ${nodeId}`
    : `read operation ${operationId} on node ${nodeId} with node.secrets.receipt before anything else`;
}
