/** Examples of frames that answer no method: those of the handshake, every event, an error. */
import type { AnyEventName, PayloadOf } from "../../../protocol/events.ts";
import { LEMON_VERSION } from "../../../protocol/version.ts";
import { atMs, deviceName, invokeId, nodeId, nodeName, pairingId } from "./cast.ts";
import { presence } from "./events.ts";

const PAYLOADS: { readonly [E in AnyEventName]: PayloadOf<E> } = {
  presence,
  tick: { timestampMs: atMs },
  shutdown: { reason: "stopping" },
  health: { ok: false, hub: "lost" },
  heartbeat: { agentId: "a-1", status: "ok", timestampMs: atMs },
  metrics: { payload: { queued: 3 }, timestampMs: atMs },
  log: { level: "info", message: "deployed", timestampMs: atMs, sessionKey: "s-1" },
  "node.pair.requested": {
    pairingId,
    code: "493018",
    nodeType: "machine",
    nodeName,
    expiresAtMs: atMs + 300_000,
  },
  "node.pair.resolved": { pairingId, nodeId, approved: true, rejected: false },
  "node.invoke.request": {
    invokeId,
    nodeId,
    nodeName,
    method: "browser.navigate",
    args: { url: "https://example.org" },
    timeoutMs: 30_000,
  },
  "node.invoke.completed": {
    invokeId,
    nodeId,
    ok: true,
    result: { title: "Example Domain" },
    error: null,
  },
  "node.invoke.cancel": { invokeId, nodeId, reason: "timeout" },
  "device.pair.requested": { pairingId, deviceType: "phone", deviceName },
  "device.pair.resolved": { pairingId, status: "approved", deviceType: "phone", deviceName },
  custom: {
    type: "custom_deploy",
    payload: { stage: "done" },
    timestampMs: atMs,
    runId: "r-17",
  },
};

/** One whole frame of each event. */
export function eventExample(event: AnyEventName) {
  return {
    type: "event",
    event,
    seq: 7,
    payload: PAYLOADS[event],
    stateVersion: { presence: 4, health: 0, cron: 0 },
  } as const;
}

/** The frames of a handshake. */
export const CONNECT_EXAMPLE = {
  type: "req",
  id: "1",
  method: "connect",
  params: { client: { id: "my-backend" }, auth: { token: "T3BlcmF0b3IgdG9rZW4" } },
} as const;

export const HELLO_EXAMPLE = {
  type: "hello-ok",
  protocol: 1,
  server: { version: LEMON_VERSION, commit: null, host: "controller", connId: "0d9c6a53" },
  features: { methods: ["health", "node.list"], events: ["presence", "tick"] },
  snapshot: { presence: {}, health: { ok: true } },
  policy: { maxPayload: 4_194_304, maxBufferedBytes: 8_388_608, tickIntervalMs: 15_000 },
  auth: { role: "operator", scopes: ["admin", "read"], clientId: "my-backend" },
} as const;

export const ERROR_EXAMPLE = {
  type: "res",
  id: "7",
  ok: false,
  error: {
    code: "CONFLICT",
    message: "The process id is spent on another intent",
    details: { code: "process_id_conflict", retrySafe: false, mutationMayHaveApplied: false },
  },
} as const;
