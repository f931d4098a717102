/** Examples of the methods of `protocol/methods/invoke.ts`: what nodes do for clients. */
import type { INVOKE_METHODS } from "../../../protocol/methods/invoke.ts";
import { type ExamplesOf, invokeId, nodeId } from "./cast.ts";

export const INVOKE_EXAMPLES: ExamplesOf<typeof INVOKE_METHODS> = {
  "node.event": {
    params: { eventType: "status", payload: { tabs: 3 } },
    result: { eventType: "status", broadcast: true, summary: { event: "custom" } },
  },
  "node.invoke": {
    params: { nodeId, method: "browser.navigate", args: { url: "https://example.org" } },
    result: {
      invokeId,
      nodeId,
      method: "browser.navigate",
      status: "pending",
      summary: { status: "pending" },
    },
  },
  "node.invoke.result": {
    params: { invokeId, result: { title: "Example Domain" } },
    result: { invokeId, received: true, summary: { status: "completed" } },
  },
};
