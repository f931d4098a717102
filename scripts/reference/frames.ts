/**
 * Owns the schemas of the frames around methods and events, for the AsyncAPI document. They are held to
 * the frames' types by the compiler and to a real handshake by the tests.
 */
import { z } from "zod";
import { WIRE_CODES } from "../../protocol/errors.ts";
import { type HelloFrame, REQUEST_ID_MAX_LENGTH, UNKNOWN_FRAME_ID } from "../../protocol/frames.ts";
import { ROLES, SCOPES_OF_ROLE } from "../../protocol/scopes.ts";

export const requestId = z
  .string()
  .max(REQUEST_ID_MAX_LENGTH)
  .describe("Echoed as it came; unique among the connection's requests in flight.");

export const answerId = z
  .string()
  .describe(
    `That of the request; \`${UNKNOWN_FRAME_ID}\` when the frame had none that could be read.`,
  );

const seq = z.int().min(1).describe("Counts, without a gap, what this connection was told.");
const version = z.int().nonnegative();

export const eventSeq = seq;
export const stateVersion = z
  .object({ presence: version, health: version, cron: version })
  .partial()
  .describe(
    "How often each of them has changed since the control plane started, as this connection was last told; empty in a private event before any other.",
  );

/** What a client says first. Nothing in `params` is an error: what can not be used is not there. */
export const connectFrame = z.object({
  type: z.literal("req"),
  id: requestId,
  method: z.literal("connect"),
  params: z
    .object({
      minProtocol: z.int().optional().describe("Not read: the protocol is 1."),
      maxProtocol: z.int().optional().describe("Not read: the protocol is 1."),
      role: z
        .enum(ROLES)
        .optional()
        .describe("Absent is `operator`; with a session token the token decides."),
      scopes: z
        .array(z.string())
        .optional()
        .describe("Narrows what an operator's token grants; absent asks for all of it."),
      client: z
        .looseObject({
          id: z.string().optional().describe("Shown to others; cut after 256 characters."),
        })
        .optional(),
      auth: z
        .looseObject({ token: z.string().optional().describe("Operator or session token.") })
        .optional()
        .describe("The only place where a token is read."),
    })
    .optional(),
});

const bytes = z.int().min(1);

/** The answer to a `connect` that was accepted: it has no id. */
export const helloFrame = z.object({
  type: z.literal("hello-ok"),
  protocol: z.int(),
  server: z.object({
    version: z.string(),
    commit: z.string().nullable(),
    host: z.string(),
    connId: z.string(),
  }),
  features: z.object({
    methods: z.array(z.string()).describe("What this connection may call; nothing else is served."),
    events: z.array(z.string()),
  }),
  snapshot: z.object({
    presence: z.record(z.string(), z.never()),
    health: z.object({ ok: z.literal(true) }),
  }),
  policy: z.object({
    maxPayload: bytes.describe("Largest text frame either side may send, in bytes."),
    maxBufferedBytes: bytes.describe(
      "Bytes of events that may wait for a slow reader before its socket is closed (1013).",
    ),
    tickIntervalMs: z.int().min(1),
  }),
  auth: z.object({
    role: z.enum(ROLES),
    scopes: z.array(z.enum(Object.values(SCOPES_OF_ROLE).flat())),
    clientId: z.string().exactOptional().describe("A node's durable id; an operator's own text."),
  }),
}) satisfies z.ZodType<HelloFrame>;

/** The answer to a request that failed, a refused `connect` among them. */
export const errorFrame = z.object({
  type: z.literal("res"),
  id: answerId,
  ok: z.literal(false),
  error: z.object({
    code: z.enum(WIRE_CODES),
    message: z.string(),
    details: z.looseObject({
      code: z.string().describe("The classification; a newer version may have more of them."),
      retrySafe: z.boolean().describe("Whether the very same request may be sent again."),
      mutationMayHaveApplied: z
        .boolean()
        .optional()
        .describe("Of a mutation: false, nothing happened; true, unknown: read before you send."),
      retryAfterMs: z
        .int()
        .nonnegative()
        .optional()
        .describe("Of `rate_limited`: when to try again."),
    }),
  }),
});
