/** Owns what the controller knows of a paired device: who it is, and the one token that it may connect with. */
import { z } from "zod";

/** How long a session token opens connections, in ms (control-plane-wire.md 2.4). */
export const SESSION_TTL_MS = 604_800_000;

const timeMs = z.int().nonnegative();

export const deviceRecord = z.strictObject({
  version: z.literal(1),
  deviceId: z.string(),
  name: z.string(),
  type: z.string(),
  /** SHA-256 of the session token, hex. */
  tokenHash: z.string().regex(/^[0-9a-f]{64}$/),
  issuedAtMs: timeMs,
  expiresAtMs: timeMs,
});
export type DeviceRecord = Readonly<z.infer<typeof deviceRecord>>;
