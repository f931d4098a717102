/** Examples of the methods of `protocol/methods/secrets.ts`: secrets, here and on nodes. */
import type { SECRET_METHODS } from "../../../protocol/methods/secrets.ts";
import { atMs, type ExamplesOf, nodeId } from "./cast.ts";

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

export const SECRET_EXAMPLES: ExamplesOf<typeof SECRET_METHODS> = {
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
};
