/**
 * Owns one example of every method: a call and its answer. They stand in `examples/`, in rooms named as those of
 * `protocol/methods/`; a test holds each to its declaration.
 */
import type { MethodName } from "../../protocol/methods.ts";
import type { Examples } from "./examples/cast.ts";
import { CONFIG_EXAMPLES } from "./examples/config.ts";
import { DEVICE_EXAMPLES } from "./examples/devices.ts";
import { ENROLMENT_EXAMPLES } from "./examples/enrolment.ts";
import { EVENT_EXAMPLES } from "./examples/events.ts";
import { FILE_EXAMPLES } from "./examples/files.ts";
import { INSIGHT_EXAMPLES } from "./examples/insight.ts";
import { INVOKE_EXAMPLES } from "./examples/invoke.ts";
import { NODE_EXAMPLES } from "./examples/nodes.ts";
import { PROCESS_EXAMPLES } from "./examples/process.ts";
import { SECRET_EXAMPLES } from "./examples/secrets.ts";
import { SYSTEM_EXAMPLES } from "./examples/system.ts";

const EXAMPLES: Examples<MethodName> = {
  ...CONFIG_EXAMPLES,
  ...DEVICE_EXAMPLES,
  ...ENROLMENT_EXAMPLES,
  ...EVENT_EXAMPLES,
  ...FILE_EXAMPLES,
  ...INSIGHT_EXAMPLES,
  ...INVOKE_EXAMPLES,
  ...NODE_EXAMPLES,
  ...PROCESS_EXAMPLES,
  ...SECRET_EXAMPLES,
  ...SYSTEM_EXAMPLES,
};

export interface Example {
  readonly params: Readonly<Record<string, unknown>>;
  readonly result: unknown;
}

const BY_NAME: ReadonlyMap<string, Example> = new Map(Object.entries(EXAMPLES));

export function exampleOf(method: string): Example {
  const example = BY_NAME.get(method);
  if (example === undefined) throw new Error(`there is no example of ${method}`);
  return example;
}
