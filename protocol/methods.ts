/** Owns the list of everything a `/ws` client can call, and the types that follow from it. */
import type { z } from "zod";
import type { MethodSpec } from "./method.ts";
import { configGet, configPatch, configSchema, configSet } from "./methods/config.ts";
import {
  deviceList,
  devicePairApprove,
  devicePairReject,
  devicePairRequest,
  deviceRevoke,
} from "./methods/devices.ts";
import {
  connectChallenge,
  nodeLinkOpen,
  nodePairApprove,
  nodePairList,
  nodePairReject,
  nodePairRequest,
  nodePairVerify,
} from "./methods/enrolment.ts";
import {
  eventsIngest,
  eventsSubscribe,
  eventsSubscriptionsList,
  eventsUnsubscribe,
  systemPresence,
} from "./methods/events.ts";
import {
  nodeFsDelete,
  nodeFsDeletePreview,
  nodeFsList,
  nodeFsMkdir,
  nodeFsMove,
  nodeFsRead,
  nodeFsStat,
  nodeFsWrite,
} from "./methods/files.ts";
import { introspectionSnapshot, logsTail } from "./methods/insight.ts";
import { nodeEvent, nodeInvoke, nodeInvokeResult } from "./methods/invoke.ts";
import {
  nodeDescribe,
  nodeHostInfo,
  nodeList,
  nodeRemove,
  nodeRename,
  nodeRevoke,
} from "./methods/nodes.ts";
import { nodeProcessCancel, nodeProcessGet, nodeProcessRun } from "./methods/process.ts";
import {
  nodeSecretsDelete,
  nodeSecretsList,
  nodeSecretsReceipt,
  nodeSecretsRotate,
  nodeSecretsSet,
  secretsDelete,
  secretsExists,
  secretsList,
  secretsRotate,
  secretsSet,
  secretsStatus,
} from "./methods/secrets.ts";
import { health, status, supervisionTree } from "./methods/system.ts";

const DECLARED = [
  configGet,
  configPatch,
  configSchema,
  configSet,
  connectChallenge,
  deviceList,
  devicePairApprove,
  devicePairReject,
  devicePairRequest,
  deviceRevoke,
  eventsIngest,
  eventsSubscribe,
  eventsSubscriptionsList,
  eventsUnsubscribe,
  health,
  introspectionSnapshot,
  logsTail,
  nodeDescribe,
  nodeEvent,
  nodeFsDelete,
  nodeFsDeletePreview,
  nodeFsList,
  nodeFsMkdir,
  nodeFsMove,
  nodeFsRead,
  nodeFsStat,
  nodeFsWrite,
  nodeHostInfo,
  nodeInvoke,
  nodeInvokeResult,
  nodeLinkOpen,
  nodeList,
  nodePairApprove,
  nodePairList,
  nodePairReject,
  nodePairRequest,
  nodePairVerify,
  nodeProcessCancel,
  nodeProcessGet,
  nodeProcessRun,
  nodeRemove,
  nodeRename,
  nodeRevoke,
  nodeSecretsDelete,
  nodeSecretsList,
  nodeSecretsReceipt,
  nodeSecretsRotate,
  nodeSecretsSet,
  secretsDelete,
  secretsExists,
  secretsList,
  secretsRotate,
  secretsSet,
  secretsStatus,
  status,
  supervisionTree,
  systemPresence,
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
