/**
 * Owns the shapes and bounds of secrets that gateway, node and command share (node-host-io.md, "Write-only
 * encrypted secrets"). Inside the fleet a value and its name travel sealed (transport/keys/sealing.ts).
 */
import { z } from "zod";
import { LemonError } from "./errors.ts";
import { classified } from "./params.ts";

export const SECRET_BOUNDS = {
  nameBytes: 256,
  valueBytes: 1_048_576,
  /** Names in one answer. */
  listed: 500,
  /** Proofs that a vault retains of one name, also after its deletion. */
  receiptsOfName: 128,
} as const;

const utf8 = new TextEncoder();

/** Names of private proofs of invocations: a later build sets them, under checks of its own. */
const RESERVED = "lemon_bot/invocations/";

/** Of a name without spaces around it. Errors: `secret_name_reserved`. */
export function refuseReservedName(name: string): void {
  if (name.startsWith(RESERVED)) throw new LemonError("secret_name_reserved");
}

export const secretName = z
  .string()
  .trim()
  .refine((name) => name !== "", "must not be empty")
  .refine((name) => name.isWellFormed(), "must be UTF-8 text")
  .refine((name) => !name.includes("\0"), "must not contain NUL")
  .refine(
    (name) => utf8.encode(name).length <= SECRET_BOUNDS.nameBytes,
    `must be at most ${SECRET_BOUNDS.nameBytes} bytes`,
  )
  .describe("Spaces around it make no other name.");

export const secretValue = z
  .string()
  .refine((value) => value.isWellFormed(), "must be UTF-8 text")
  .refine(
    // A character takes one to three bytes, so most values need no counting.
    (value) =>
      value.length * 3 <= SECRET_BOUNDS.valueBytes ||
      (value.length <= SECRET_BOUNDS.valueBytes &&
        utf8.encode(value).length <= SECRET_BOUNDS.valueBytes),
    classified("too_large", `must be at most ${SECRET_BOUNDS.valueBytes} bytes`),
  )
  .describe("Never shown again, by nothing.");

export const secretOperationId = z
  .string()
  .regex(/^[A-Za-z0-9_:-]{1,128}$/, "must be 1 to 128 of letters, digits, _, : and -")
  .describe("The caller's own id of the operation, spent for ever by its first use.");

/** What a node is asked; a set is sealed whole, its name too. */
export const secretRequests = {
  set: z.strictObject({
    sealed: z.instanceof(Uint8Array),
    /** Public curve nkey, made for this one message. */
    sender: z.string().max(64),
  }),
  list: z.strictObject({}),
  delete: z.strictObject({ name: secretName }),
  receipt: z.strictObject({ operationId: secretOperationId }),
  rotate: z.strictObject({}),
} as const;

/** What stands beside the value inside a sealed set. */
export const sealedAbout = z.strictObject({
  name: secretName,
  operationId: secretOperationId.nullable(),
});

const applied = {
  operationId: z.string().optional().describe("The given one; absent without."),
  status: z.literal("applied").optional(),
  currentBindingMatches: z.literal(true).optional(),
};

/** What a node answers, and a client is told but for the node's id. */
export const secretAnswers = {
  set: z
    .strictObject({ name: z.string(), set: z.literal(true), ...applied })
    .refine(
      ({ operationId, status, currentBindingMatches }) =>
        (operationId === undefined) === (status === undefined) &&
        (operationId === undefined) === (currentBindingMatches === undefined),
    ),
  list: z.strictObject({
    names: z.array(z.string()).max(SECRET_BOUNDS.listed),
    limit: z.literal(SECRET_BOUNDS.listed),
    truncated: z.boolean(),
  }),
  delete: z.strictObject({ name: z.string(), deleted: z.literal(true) }),
  rotate: z.strictObject({
    count: z.int().nonnegative().describe("Secrets that were put under the new key."),
    behind: z
      .array(z.string())
      .describe(
        "Running vaults of the same state folder that are not under it yet, by node id, or `controller`: they follow by themselves.",
      ),
  }),
  receipt: z
    .strictObject({
      operationId: z.string(),
      status: z
        .enum(["applied", "not_found"])
        .describe(
          "`applied` proves that this very operation was accepted; `not_found` that none with this id was.",
        ),
      name: z.string().nullable(),
      currentBindingMatches: z
        .boolean()
        .describe("Whether the secret still is what that operation made of it."),
    })
    .refine(({ status, name, currentBindingMatches }) =>
      status === "applied" ? name !== null : name === null && !currentBindingMatches,
    ),
} as const;
