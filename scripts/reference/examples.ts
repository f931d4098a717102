/** Owns one example of every method and event; a test holds each to its declaration. */
import type { AnyEventName, PayloadOf } from "../../protocol/events.ts";
import type { InputOf, MethodName, ResultOf } from "../../protocol/methods.ts";
import { LEMON_VERSION } from "../../protocol/version.ts";

type Examples = {
  readonly [M in MethodName]: { readonly params: InputOf<M>; readonly result: ResultOf<M> };
};

const nodeId = "85ccdaa0-ff5f-4e1d-b2aa-9449409bc2d5";
const nodeName = "worker-1";
const deviceId = "5f3d0a3e-0f0b-4f3c-8a49-2b1f6c1d7e90";
const deviceName = "phone-1";
const pairingId = "6f0d6f0e-4f5e-4a55-9a43-0d7a3a9b6b1c";
const invokeId = "3b7e6f0a-2f63-4f0e-9f0e-1a7d5a0b9c11";
const processId = "backup:2026-12-01";
const atMs = 1_796_058_000_000;
const capabilities = { "node.process.run": { version: 1 }, "node.host.info": { version: 1 } };

const node = {
  nodeId,
  name: nodeName,
  type: "machine",
  capabilities,
  status: "online",
  pairedAtMs: atMs - 86_400_000,
  lastSeenMs: atMs,
} as const;

const receipt = {
  processId,
  nodeId,
  state: "completed",
  exitCode: 0,
  stdoutBase64: "Y29waWVkCg==",
  stderrBase64: "",
  outputTruncated: false,
} as const;

const file = {
  type: "regular",
  size: 11,
  mtimeMs: atMs + 123,
  mode: 33188,
  mime: "text/plain",
  readable: true,
  writable: true,
} as const;

const secretName = "integration/token";
const operationId = "install:token-1";
const secret = {
  owner: "default",
  name: secretName,
  provider: "manual",
  expiresAt: null,
  usageCount: 3,
  lastUsedAt: atMs,
  createdAt: atMs - 86_400_000,
  updatedAt: atMs - 3_600_000,
  version: "v1",
};

const presence = {
  connections: [
    {
      conn_id: "0d9c6a53-9d0c-4a0f-8c43-5a1f3a5f0f7e",
      role: "operator",
      client_id: "my-backend",
      connected_at: atMs,
    },
  ],
  count: 1,
};

const EXAMPLES: Examples = {
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
  "connect.challenge": {
    params: { challenge: "Q2hhbGxlbmdlIG9mIGFuIGFwcHJvdmFs" },
    result: {
      verified: true,
      identity: { type: "node", nodeId, nodeName },
      token: "U2Vzc2lvbiB0b2tlbiBvZiBhIG5vZGU",
      summary: { verified: true },
    },
  },
  "device.list": {
    params: {},
    result: {
      devices: [
        {
          deviceId,
          deviceName,
          deviceType: "phone",
          issuedAtMs: atMs,
          expiresAtMs: atMs + 604_800_000,
          connections: 1,
        },
      ],
      summary: { deviceCount: 1 },
    },
  },
  "device.pair.approve": {
    params: { pairingId },
    result: {
      pairingId,
      deviceId,
      challengeToken: "Q2hhbGxlbmdlIG9mIGFuIGFwcHJvdmFs",
      approved: true,
      summary: { approved: true },
    },
  },
  "device.pair.reject": {
    params: { pairingId },
    result: { pairingId, rejected: true, summary: { rejected: true } },
  },
  "device.pair.request": {
    params: { deviceType: "phone", deviceName },
    result: {
      pairingId,
      code: "493018",
      expiresAtMs: atMs + 300_000,
      summary: { expiresAtMs: atMs + 300_000 },
    },
  },
  "device.revoke": {
    params: { deviceId },
    result: { deviceId, revoked: true },
  },
  "events.ingest": {
    params: { eventType: "custom_deploy", payload: { stage: "done" }, target: "run:r-17" },
    result: {
      ingested: true,
      eventType: "custom_deploy",
      target: "run:r-17",
      timestampMs: atMs,
      summary: { event: "custom" },
    },
  },
  "events.subscribe": {
    params: { topics: ["nodes"], runId: "r-17" },
    result: {
      subscribed: true,
      topics: ["nodes", "run:r-17"],
      runId: "r-17",
      summary: { subscriptionCount: 2 },
    },
  },
  "events.subscriptions.list": {
    params: {},
    result: {
      subscriptions: ["nodes", "run:r-17"],
      runSubscriptions: ["r-17"],
      count: 2,
      summary: { subscriptionCount: 2 },
    },
  },
  "events.unsubscribe": {
    params: { topics: ["nodes"] },
    result: {
      unsubscribed: true,
      topics: ["nodes"],
      runId: null,
      summary: { subscriptionCount: 1 },
    },
  },
  health: {
    params: {},
    result: {
      ok: true,
      uptime_ms: 61_000,
      memory_mb: 118.2,
      schedulers: 2,
      summary: { action: "health" },
    },
  },
  "introspection.snapshot": {
    params: { includeAgents: true, includeSessions: false },
    result: {
      generatedAtMs: atMs,
      includes: { agents: true, sessions: false },
      filters: { agentId: null },
      agents: [],
      sessions: [],
      activeSessions: [],
      channels: [],
      transports: [],
      runs: { active: null, queued: null, completed_today: null },
      counts: { agents: null },
      errors: [{ section: "agents", code: "unavailable" }],
      summary: { errorCount: 1 },
    },
  },
  "logs.tail": {
    params: { limit: 1, level: "warn" },
    result: {
      logs: [{ timestampMs: atMs, level: "warn", message: "nats-server ended", ordered: false }],
      total: 3,
      filters: { limit: 1, level: "warn" },
      summary: { count: 1, levelCounts: { warn: 1 } },
    },
  },
  "node.describe": {
    params: { nodeId: nodeName },
    result: {
      ...node,
      metadata: {
        generation: 3,
        lemonVersion: LEMON_VERSION,
        receipts: { retained: 12, limit: 1_000 },
        receiptStore: "ready",
        hostIo: { "node.fs.read": { done: 128, refused: 1, unknown: 0 } },
      },
      summary: { online: true },
    },
  },
  "node.event": {
    params: { eventType: "status", payload: { tabs: 3 } },
    result: { eventType: "status", broadcast: true, summary: { event: "custom" } },
  },
  "node.fs.delete": {
    params: {
      nodeId,
      path: "results/note.txt",
      confirm: "results/note.txt",
      confirmationToken: "VG9rZW4gb2YgYSBwcmV2aWV3IG9mIGEgZGVsZXRpb24",
    },
    result: { path: "/srv/project/results/note.txt", deleted: true },
  },
  "node.fs.delete.preview": {
    params: { nodeId, path: "results/note.txt" },
    result: {
      path: "/srv/project/results/note.txt",
      stat: file,
      childCount: 0,
      childrenDigest: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU",
      candidateCount: 1,
      confirmationToken: "VG9rZW4gb2YgYSBwcmV2aWV3IG9mIGEgZGVsZXRpb24",
      expiresAtMs: atMs + 300_000,
    },
  },
  "node.fs.list": {
    params: { nodeId, path: "results" },
    result: {
      path: "/srv/project/results",
      entries: [{ name: "note.txt", ...file }],
      limit: 500,
      truncated: false,
    },
  },
  "node.fs.mkdir": {
    params: { nodeId, path: "results/old" },
    result: { path: "/srv/project/results/old", created: true },
  },
  "node.fs.move": {
    params: {
      nodeId,
      path: "results/note.txt",
      destination: "results/old/note.txt",
      expectedModifiedAtMs: file.mtimeMs,
    },
    result: {
      path: "/srv/project/results/note.txt",
      destination: "/srv/project/results/old/note.txt",
      moved: true,
    },
  },
  "node.fs.read": {
    params: { nodeId, path: "results/note.txt", offset: 6, length: 6 },
    result: {
      path: "/srv/project/results/note.txt",
      dataBase64: "d29ybGQ=",
      offset: 6,
      length: 5,
      size: 11,
      mime: "text/plain",
      eof: true,
    },
  },
  "node.fs.stat": {
    params: { nodeId, path: "results/note.txt" },
    result: { path: "/srv/project/results/note.txt", ...file },
  },
  "node.fs.write": {
    params: {
      nodeId,
      path: "results/note.txt",
      dataBase64: "SGVsbG8g",
      mkdirs: true,
      expectedModifiedAtMs: 0,
    },
    result: {
      path: "/srv/project/results/note.txt",
      offset: 0,
      bytesWritten: 6,
      size: 6,
      mtimeMs: file.mtimeMs,
    },
  },
  "node.host.info": {
    params: { nodeId },
    result: {
      hostname: nodeName,
      os: "linux",
      osVersion: "6.12.0",
      arch: "x86_64-unknown-linux-gnu",
      cpuCount: 8,
      memTotalBytes: 16_777_216_000,
      memFreeBytes: 9_663_676_416,
      diskTotalBytes: 107_374_182_400,
      diskFreeBytes: 53_687_091_200,
      uptimeSec: 86_400,
      lemonVersion: LEMON_VERSION,
      defaultCwd: "/srv/project",
      user: "lemon",
    },
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
  "node.link.open": {
    params: {
      linkKey: `U${"A".repeat(55)}`,
      sealKey: `X${"A".repeat(55)}`,
      serverName: "worker-1-7f3a",
      lemonVersion: LEMON_VERSION,
      capabilities,
      storeId: "b1946ac92492d234",
      storeSequence: 41,
    },
    result: {
      nodeId,
      nodeName,
      nodeKey: `A${"A".repeat(55)}`,
      generation: 4,
      linkJwt: "eyJ0eXAiOiJKV1QifQ…",
      linkLifetimeMs: 3_600_000,
      leafPath: "/",
      leafUrl: null,
      sessionToken: "VGhlIG5leHQgc2Vzc2lvbiB0b2tlbg",
      sessionTokenExpiresAtMs: atMs + 604_800_000,
      registeredStoreId: "b1946ac92492d234",
      registeredStoreSequence: 41,
    },
  },
  "node.list": { params: {}, result: { nodes: [node], summary: { nodeCount: 1 } } },
  "node.pair.approve": {
    params: { pairingId },
    result: {
      nodeId,
      token: "UmVjb3ZlcnkgdG9rZW4gb2YgYSBub2Rl",
      challengeToken: "Q2hhbGxlbmdlIG9mIGFuIGFwcHJvdmFs",
      approved: true,
      summary: { approved: true },
    },
  },
  "node.pair.list": {
    params: {},
    result: {
      requests: [
        {
          pairingId,
          code: "493018",
          nodeType: "machine",
          nodeName,
          capabilities,
          expiresAtMs: atMs + 300_000,
          createdAtMs: atMs,
        },
      ],
      summary: { requestCount: 1 },
    },
  },
  "node.pair.reject": {
    params: { pairingId },
    result: { pairingId, rejected: true, summary: { rejected: true } },
  },
  "node.pair.request": {
    params: { nodeType: "machine", nodeName, capabilities },
    result: {
      pairingId,
      code: "493018",
      expiresAtMs: atMs + 300_000,
      summary: { expiresAtMs: atMs + 300_000 },
    },
  },
  "node.pair.verify": {
    params: { code: "493018" },
    result: { valid: true, status: "pending", pairingId, summary: { status: "pending" } },
  },
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
  "node.remove": { params: { nodeId }, result: { nodeId, removed: true } },
  "node.rename": {
    params: { nodeId, name: "worker-2" },
    result: { nodeId, name: "worker-2", renamed: true, summary: { renamed: true } },
  },
  "node.revoke": { params: { nodeId }, result: { nodeId, revoked: true } },
  "node.secrets.delete": {
    params: { nodeId, name: secretName },
    result: { name: secretName, deleted: true },
  },
  "node.secrets.list": {
    params: { nodeId },
    result: { names: ["integration/certificate", secretName], limit: 500, truncated: false },
  },
  "node.secrets.receipt": {
    params: { nodeId, operationId },
    result: {
      nodeId,
      operationId,
      status: "applied",
      name: secretName,
      currentBindingMatches: true,
    },
  },
  "node.secrets.rotate": { params: { nodeId }, result: { count: 2, behind: [] } },
  "node.secrets.set": {
    params: { nodeId, name: secretName, value: "VALUE_FROM_PRIVATE_BACKEND", operationId },
    result: {
      name: secretName,
      set: true,
      operationId,
      status: "applied",
      currentBindingMatches: true,
    },
  },
  "secrets.delete": {
    params: { name: secretName },
    result: { ok: true, name: secretName, summary: { deleted: true } },
  },
  "secrets.exists": {
    params: { name: secretName },
    result: { name: secretName, exists: true, summary: { exists: true } },
  },
  "secrets.list": {
    params: {},
    result: { owner: "default", secrets: [secret], summary: { count: 1 } },
  },
  "secrets.rotate": {
    params: {},
    result: { ok: true, count: 1, behind: [], summary: { count: 1 } },
  },
  "secrets.set": {
    params: { name: secretName, value: "VALUE_FROM_PRIVATE_BACKEND" },
    result: { ok: true, secret, summary: { expires: false } },
  },
  "secrets.status": {
    params: {},
    result: {
      configured: true,
      source: "file",
      keychainAvailable: false,
      envFallback: false,
      fileFallback: true,
      keychainErrorKind: null,
      healthy: true,
      owner: "default",
      count: 1,
      cleanup: { unerased: 0, unrotated: 0 },
      summary: { source: "file", count: 1 },
    },
  },
  status: {
    params: {},
    result: {
      server: {
        version: LEMON_VERSION,
        uptime_ms: 61_000,
        memory_mb: 118.2,
        otp_release: null,
        schedulers: 2,
        build: { runtimeMode: "release-runtime", channel: null, commit: null },
      },
      connections: { active: 2, operators: 1, nodes: 1, devices: 0 },
      runs: { active: null, queued: null, completed_today: null, failed_today: null },
      channels: { configured: [], connected: [], details: [] },
      skills: { installed: 0, enabled: 0 },
      providers: [],
      lifecycle: {
        restart: false,
        stop: false,
        reason: "This build is restarted and stopped by whoever started it, not over /ws",
      },
      subsystems: { providers: { status: "unavailable" } },
      summary: { action: "status", cleanup: { includesSecretValues: false } },
    },
  },
  "supervision.tree": {
    params: {},
    result: {
      generatedAtMs: atMs,
      trees: [
        {
          source: "controller",
          name: "controller",
          tree: {
            path: "/controller",
            kind: "supervisor",
            state: "running",
            restart: "permanent",
            mailboxDepth: 0,
            oldestMessageAgeMs: null,
            startedAtMs: atMs - 61_000,
            restartsInWindow: 0,
            restartsLeft: 3,
            lastCrash: null,
            children: [],
          },
          error: null,
        },
        { source: nodeId, name: nodeName, tree: null, error: "node_offline" },
      ],
    },
  },
  "system-presence": {
    params: {},
    result: { ...presence, summary: { connectionCount: 1 } },
  },
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
