/** Examples of the methods of `protocol/methods/process.ts`: process runs. */
import type { PROCESS_METHODS } from "../../../protocol/methods/process.ts";
import { type ExamplesOf, nodeId } from "./cast.ts";

const processId = "backup:2026-12-01";

const receipt = {
  processId,
  nodeId,
  state: "completed",
  exitCode: 0,
  stdoutBase64: "Y29waWVkCg==",
  stderrBase64: "",
  outputTruncated: false,
} as const;

export const PROCESS_EXAMPLES: ExamplesOf<typeof PROCESS_METHODS> = {
  "node.process.cancel": {
    params: { nodeId, processId },
    result: {
      ...receipt,
      state: "cancelled",
      exitCode: 137,
    },
  },
  "node.process.get": { params: { nodeId, processId }, result: receipt },
  "node.process.run": {
    params: {
      nodeId,
      processId,
      cwd: ".",
      argv: ["/srv/project/backup", "--full"],
      stdinBase64: "",
      timeoutMs: 600_000,
      maxOutputBytes: 1_048_576,
    },
    result: receipt,
  },
};
