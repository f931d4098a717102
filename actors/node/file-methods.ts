/**
 * Owns files on nodes as a `/ws` client asks for them: from base64 to the worker's bytes and back, and what
 * a failure on the way says (node-host-io.md, "File operations").
 *
 * 1. An answer is believed only when it is one, and about what was asked.
 * 2. A mutation is sent once. What may have happened is said with the read that settles it, and is never
 *    tried again here.
 * 3. No error names a path, a name or a byte.
 */
import type { z } from "zod";
import type { Clock } from "../../host/clock.ts";
import { ERRORS, LemonError } from "../../protocol/errors.ts";
import { FILE_BOUNDS, fileAnswers, type fileRequests } from "../../protocol/files.ts";
import type { NodeId } from "../../protocol/ids.ts";
import {
  type FILE_METHODS,
  nodeFsDelete,
  nodeFsDeletePreview,
  nodeFsList,
  nodeFsMkdir,
  nodeFsMove,
  nodeFsRead,
  nodeFsStat,
  nodeFsWrite,
} from "../../protocol/methods/files.ts";
import { Base64 } from "../session/answer-text.ts";
import type { Caller, MethodHandlers } from "../session/handler.ts";
import { askNode, type Question } from "./asking.ts";
import type { Directory } from "./directory.ts";
import type { Fleet } from "./fleet.ts";
import { ReadLanes } from "./read-lanes.ts";

export type FileMethod = (typeof FILE_METHODS)[number]["name"];

export interface FileMethodsOptions {
  readonly fleet: Fleet;
  readonly directory: Directory;
  readonly clock: Clock;
}

/** Two paths and the framing of an answer. */
const ANSWER_BYTES = 16_384;
/** A name has up to 255 bytes; an entry has seven more fields. */
const ENTRY_BYTES = 512;

/** One call to a destination. */
interface Asked<Answer> extends Omit<Question<FileMethod, Answer>, "answerBytes"> {
  readonly answerBytes?: number;
}

type RequestTo<M extends keyof typeof fileRequests> = Omit<
  z.infer<(typeof fileRequests)[M]>,
  "caller"
>;

export function fileMethods(options: FileMethodsOptions): MethodHandlers<FileMethod> {
  const { fleet, directory, clock } = options;
  const lanes = new ReadLanes(clock);
  const ask = async <Answer>(
    selector: string,
    caller: Caller,
    asked: Asked<Answer>,
  ): Promise<Answer> => {
    const { nodeId } = directory.resolve(selector);
    // Callers take turns at the node's helper, too.
    const request = { ...asked.request, caller: caller.connectionId };
    try {
      return await askNode(fleet, nodeId, caller, { answerBytes: ANSWER_BYTES, ...asked, request });
    } catch (error) {
      if (!(error instanceof LemonError) || !error.mutationMayHaveApplied) throw error;
      throw uncertain(error, nodeId);
    }
  };

  return {
    "node.fs.list": async (params, caller) => {
      const { nodeId, ...request } = params;
      const answer = await ask(nodeId, caller, {
        spec: nodeFsList,
        deadlineMs: nodeFsList.deadlineMs(params),
        request: request satisfies RequestTo<"list">,
        answer: fileAnswers.list,
        answerBytes: ANSWER_BYTES + FILE_BOUNDS.listedEntries * ENTRY_BYTES,
      });
      return { ...answer, limit: FILE_BOUNDS.listedEntries };
    },

    "node.fs.stat": async (params, caller) => {
      const { nodeId, ...request } = params;
      return await ask(nodeId, caller, {
        spec: nodeFsStat,
        deadlineMs: nodeFsStat.deadlineMs(params),
        request: request satisfies RequestTo<"stat">,
        answer: fileAnswers.stat,
      });
    },

    "node.fs.read": async (params, caller) => {
      const { nodeId, ...request } = params;
      const node = directory.resolve(nodeId).nodeId;
      const read = (waitedMs: number) =>
        ask(node, caller, {
          spec: nodeFsRead,
          deadlineMs: nodeFsRead.deadlineMs(params) - waitedMs,
          request: request satisfies RequestTo<"read">,
          answer: fileAnswers.read,
          isAbout: (answer) =>
            answer.offset === request.offset && answer.bytes.length <= request.length,
          answerBytes: ANSWER_BYTES + request.length,
        });
      const { length } = request;
      const { bytes, ...told } = await lanes.through(node, caller.connectionId, length, read);
      return { ...told, length: bytes.length, dataBase64: new Base64(bytes) };
    },

    "node.fs.write": async (params, caller) => {
      const { nodeId, dataBase64, expectedModifiedAtMs = null, ...request } = params;
      const bytes = Buffer.from(dataBase64, "base64");
      return await ask(nodeId, caller, {
        spec: nodeFsWrite,
        deadlineMs: nodeFsWrite.deadlineMs(params),
        request: { ...request, bytes, expectedModifiedAtMs } satisfies RequestTo<"write">,
        answer: fileAnswers.write,
        isAbout: ({ offset, bytesWritten }) =>
          offset === request.offset && bytesWritten === bytes.length,
      });
    },

    "node.fs.mkdir": async (params, caller) => {
      const { nodeId, ...request } = params;
      const answer = await ask(nodeId, caller, {
        spec: nodeFsMkdir,
        deadlineMs: nodeFsMkdir.deadlineMs(params),
        request: request satisfies RequestTo<"mkdir">,
        answer: fileAnswers.mkdir,
      });
      return { ...answer, created: true };
    },

    "node.fs.move": async (params, caller) => {
      const { nodeId, ...request } = params;
      const answer = await ask(nodeId, caller, {
        spec: nodeFsMove,
        deadlineMs: nodeFsMove.deadlineMs(params),
        request: request satisfies RequestTo<"move">,
        answer: fileAnswers.move,
      });
      return { ...answer, moved: true };
    },

    "node.fs.delete.preview": async (params, caller) => {
      const { nodeId, ...request } = params;
      return await ask(nodeId, caller, {
        spec: nodeFsDeletePreview,
        deadlineMs: nodeFsDeletePreview.deadlineMs(params),
        request: request satisfies RequestTo<"preview">,
        answer: fileAnswers.preview,
      });
    },

    "node.fs.delete": async (params, caller) => {
      const { nodeId, ...request } = params;
      const answer = await ask(nodeId, caller, {
        spec: nodeFsDelete,
        deadlineMs: nodeFsDelete.deadlineMs(params),
        request: request satisfies RequestTo<"delete">,
        answer: fileAnswers.delete,
      });
      return { ...answer, deleted: true };
    },
  };
}

/** A node that tells what went wrong keeps its word for it; silence has one name. */
function uncertain(error: LemonError, nodeId: NodeId): LemonError {
  const { code, wire } = error;
  const isSilence = ERRORS[code].outcome === "unknown";
  const what = isSilence ? "The outcome is unknown" : error.message;
  return new LemonError(isSilence ? "filesystem_outcome_unknown" : code, {
    message: `${what}; read what is there on node ${nodeId} with node.fs.stat before anything else`,
    wire: isSilence && wire !== "TIMEOUT" ? "UNAVAILABLE" : wire,
    retrySafe: false,
    mutationMayHaveApplied: true,
    details: { ...error.details, nodeId },
    cause: error,
  });
}
