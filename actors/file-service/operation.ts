/** Owns what the service has its helper do: one operation at a time, by name. */
import type { FileOperations } from "../../host/files/operations.ts";
import { fileRequests } from "../../protocol/files.ts";
import { readRequest } from "../../protocol/params.ts";
import { SHORT_BYTES } from "./queue.ts";

type OperationName = Exclude<keyof FileOperations, "close">;

export type Operation = {
  readonly [M in OperationName]: {
    readonly method: M;
    readonly request: Parameters<FileOperations[M]>[0];
  };
}[OperationName];

/** Those that need no token, nor make one. */
export type PlainOperationName = Exclude<OperationName, "preview" | "delete">;

/** One as a caller asks for it. */
export interface Asked {
  readonly caller: string;
  readonly operation: Operation;
}

/** Reads what came over the link. Errors: those of `readRequest`. */
export function readOperation(method: PlainOperationName, raw: unknown): Asked {
  switch (method) {
    case "list": {
      const { caller, ...request } = readRequest(fileRequests.list, raw);
      return { caller, operation: { method, request } };
    }
    case "stat": {
      const { caller, ...request } = readRequest(fileRequests.stat, raw);
      return { caller, operation: { method, request } };
    }
    case "read": {
      const { caller, ...request } = readRequest(fileRequests.read, raw);
      return { caller, operation: { method, request } };
    }
    case "write": {
      const { caller, ...request } = readRequest(fileRequests.write, raw);
      return { caller, operation: { method, request } };
    }
    case "mkdir": {
      const { caller, ...request } = readRequest(fileRequests.mkdir, raw);
      return { caller, operation: { method, request } };
    }
    case "move": {
      const { caller, ...request } = readRequest(fileRequests.move, raw);
      return { caller, operation: { method, request } };
    }
  }
}

/** Whether it may well take longer than a look at one file. */
export function isLong({ method, request }: Operation): boolean {
  switch (method) {
    case "read":
      return request.length > SHORT_BYTES;
    case "write":
      return request.bytes.length > SHORT_BYTES;
    case "list":
    case "preview":
    case "delete":
      return true;
    case "stat":
    case "mkdir":
    case "move":
      return false;
  }
}

/** Whether it may have changed something when its answer did not come. */
export function isMutation({ method }: Operation): boolean {
  return method === "write" || method === "mkdir" || method === "move" || method === "delete";
}
