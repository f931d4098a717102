/** Examples of the methods of `protocol/methods/config.ts`: settings. */
import type { CONFIG_METHODS } from "../../../protocol/methods/config.ts";
import type { ExamplesOf } from "./cast.ts";

export const CONFIG_EXAMPLES: ExamplesOf<typeof CONFIG_METHODS> = {
  "config.get": {
    params: { key: "logLevel" },
    result: {
      key: "logLevel",
      value: "info",
      summary: { requestedKey: "logLevel", found: true, sensitive: false, valueReturned: true },
    },
  },
  "config.patch": {
    params: { patch: { logLevel: "debug", routerModel: "large" } },
    result: { success: true, applied: ["logLevel", "routerModel"], summary: { appliedCount: 2 } },
  },
  "config.schema": {
    params: {},
    result: {
      schema: {
        type: "object",
        properties: { logLevel: { type: "string", enum: ["debug", "info"] } },
      },
      summary: { propertyCount: 1 },
    },
  },
  "config.set": {
    params: { key: "logLevel", value: "debug" },
    result: {
      key: "logLevel",
      value: "debug",
      success: true,
      summary: { key: "logLevel", sensitive: false },
    },
  },
};
