/** Owns the list of everything a `/ws` client can call, and the types that follow from it. */
import type { z } from "zod";
import type { MethodSpec } from "./method.ts";
import { CONFIG_METHODS } from "./methods/config.ts";
import { DEVICE_METHODS } from "./methods/devices.ts";
import { ENROLMENT_METHODS } from "./methods/enrolment.ts";
import { EVENT_METHODS } from "./methods/events.ts";
import { FILE_METHODS } from "./methods/files.ts";
import { INSIGHT_METHODS } from "./methods/insight.ts";
import { INVOKE_METHODS } from "./methods/invoke.ts";
import { NODE_METHODS } from "./methods/nodes.ts";
import { PROCESS_METHODS } from "./methods/process.ts";
import { SECRET_METHODS } from "./methods/secrets.ts";
import { SYSTEM_METHODS } from "./methods/system.ts";

const DECLARED = [
  ...CONFIG_METHODS,
  ...DEVICE_METHODS,
  ...ENROLMENT_METHODS,
  ...EVENT_METHODS,
  ...FILE_METHODS,
  ...INSIGHT_METHODS,
  ...INVOKE_METHODS,
  ...NODE_METHODS,
  ...PROCESS_METHODS,
  ...SECRET_METHODS,
  ...SYSTEM_METHODS,
] as const;

type Declared = (typeof DECLARED)[number];
export type MethodName = Declared["name"];
type SpecOf<M extends MethodName> = Extract<Declared, { name: M }>;
/** Parameters as a handler gets them: validated. */
export type ParamsOf<M extends MethodName> = z.output<SpecOf<M>["params"]>;
/** Parameters as a caller gives them. */
export type InputOf<M extends MethodName> = z.input<SpecOf<M>["params"]>;
export type ResultOf<M extends MethodName> = z.output<SpecOf<M>["result"]>;

/** Every declared method by its wire name. */
export const METHODS: ReadonlyMap<string, MethodSpec> = new Map(
  DECLARED.map((spec): [string, MethodSpec] => [spec.name, spec as unknown as MethodSpec]),
);
