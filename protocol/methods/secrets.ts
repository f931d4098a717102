/**
 * Declares secrets: of a node (node-host-io.md, "Write-only encrypted secrets") and of the control plane
 * itself (control-plane-wire.md 3.8). Nothing declared here returns a value.
 */
import { z } from "zod";
import { method, settledBy } from "../method.ts";
import { secretAnswers, secretName, secretOperationId, secretValue } from "../secrets.ts";
import { nodeSelector } from "./nodes.ts";

const nodeId = nodeSelector.describe(
  "The node's durable id alone: a name can pass to another node, which then would get the secret.",
);
const name = secretName;
const value = secretValue;
const operationId = secretOperationId;

export const nodeSecretsReceipt = method({
  name: "node.secrets.receipt",
  summary: "Reads the proof of a set by its operation id, or its proven absence.",
  scopes: ["admin"],
  effect: "read",
  params: z.object({ nodeId, operationId }),
  result: z.strictObject({ nodeId: z.string(), ...secretAnswers.receipt.shape }),
  echoes: ["nodeId", "operationId"],
});

export const nodeSecretsList = method({
  name: "node.secrets.list",
  summary: "The first 500 names of the node's unexpired secrets, sorted.",
  scopes: ["admin"],
  effect: "read",
  params: z.object({ nodeId }),
  result: secretAnswers.list,
});

export const nodeSecretsSet = method({
  name: "node.secrets.set",
  summary: "Puts a secret into the node's own vault, in place of one with the same name.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({ nodeId, name, value, operationId: operationId.optional() }),
  result: secretAnswers.set,
  echoes: ["operationId"],
  settledBy: settledBy(nodeSecretsReceipt, "nodeId", "operationId"),
});

export const nodeSecretsDelete = method({
  name: "node.secrets.delete",
  summary: "Deletes a secret from the node's vault; one that is not there is as good.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({ nodeId, name }),
  result: secretAnswers.delete,
  settledBy: settledBy(nodeSecretsList, "nodeId"),
});

export const nodeSecretsRotate = method({
  name: "node.secrets.rotate",
  summary: "Makes a new master key on the node's machine, and puts the node's secrets under it.",
  scopes: ["admin"],
  effect: "mutation",
  // To rotate once more is no harm.
  retrySafe: true,
  params: z.object({ nodeId }),
  result: secretAnswers.rotate,
});

const summary = z.looseObject({}).describe("A digest for people; its members may change.");
const timeMs = z.int().nonnegative().describe("Unix time in ms.");

const metadata = z.object({
  owner: z.string(),
  name: z.string(),
  provider: z.string().describe("Where it came from: `manual` unless the setter named another."),
  expiresAt: timeMs.nullable().describe("Unix time in ms; null: never."),
  usageCount: z.int().nonnegative().describe("How often it was used on this machine."),
  lastUsedAt: timeMs.nullable().describe("Unix time in ms."),
  createdAt: timeMs,
  updatedAt: timeMs,
  version: z.string().describe("Of the construction that it is encrypted by."),
});

const secretsStatus = method({
  name: "secrets.status",
  summary: "Where the control plane's master key comes from, and how its vault is.",
  scopes: ["read"],
  effect: "read",
  params: z.object({}),
  result: z.object({
    configured: z.boolean().describe("Whether there is a master key."),
    source: z.enum(["keychain", "env", "file"]).nullable(),
    keychainAvailable: z.boolean(),
    envFallback: z.boolean().describe("Whether LEMON_SECRETS_MASTER_KEY is set."),
    fileFallback: z.boolean().describe("Whether the key file is there."),
    keychainErrorKind: z.string().nullable(),
    healthy: z.boolean().describe("Whether secrets can be set and used."),
    owner: z.string(),
    count: z.int().nonnegative().nullable().describe("Unexpired secrets; null while nobody knows."),
    cleanup: z.looseObject({}),
    summary,
  }),
});

const secretsList = method({
  name: "secrets.list",
  summary: "What is known of the control plane's own secrets; never a value.",
  scopes: ["read"],
  effect: "read",
  params: z.object({ owner: z.string().max(128).optional() }),
  result: z.object({ owner: z.string(), secrets: z.array(metadata), summary }),
});

const secretsRotate = method({
  name: "secrets.rotate",
  summary:
    "Makes a new master key on the control plane's machine, and puts the secrets of its process under it.",
  scopes: ["admin"],
  effect: "mutation",
  retrySafe: true,
  params: z.object({}),
  result: secretAnswers.rotate.extend({ ok: z.literal(true), summary }),
});

const secretsExists = method({
  name: "secrets.exists",
  summary: "Whether the control plane has a secret of this name.",
  scopes: ["read"],
  effect: "read",
  params: z.object({
    name,
    preferEnv: z
      .boolean()
      .optional()
      .describe("As `envFallback`: there is no order in a yes or no."),
    envFallback: z
      .boolean()
      .optional()
      .describe("Whether a variable of that name in its environment counts, too."),
  }),
  result: z.object({ name: z.string(), exists: z.boolean(), summary }),
});

const secretsSet = method({
  name: "secrets.set",
  summary: "Puts a secret into the control plane's own vault, in place of one with the same name.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({
    name,
    value,
    provider: z
      .string()
      .trim()
      .min(1, "must not be empty")
      .max(64, "must be at most 64 characters")
      .optional(),
    expiresAt: timeMs.optional(),
  }),
  result: z.object({ ok: z.literal(true), secret: metadata, summary }),
  settledBy: settledBy(secretsList),
});

const secretsDelete = method({
  name: "secrets.delete",
  summary: "Deletes a secret of the control plane; one that is not there is as good.",
  scopes: ["admin"],
  effect: "mutation",
  params: z.object({ name }),
  result: z.object({ ok: z.literal(true), name: z.string(), summary }),
  settledBy: settledBy(secretsExists, "name"),
});

export const SECRET_METHODS = [
  nodeSecretsReceipt,
  nodeSecretsList,
  nodeSecretsSet,
  nodeSecretsDelete,
  nodeSecretsRotate,
  secretsStatus,
  secretsList,
  secretsRotate,
  secretsExists,
  secretsSet,
  secretsDelete,
] as const;
