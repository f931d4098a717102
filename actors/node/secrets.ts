/** Owns how this room makes its secrets and how it knows them again: at rest there are hashes alone. */
import { createHash, randomBytes, randomInt, timingSafeEqual } from "node:crypto";

export interface Secrets {
  /** 32 random bytes, base64url without padding. */
  token(): string;
  /** Six random digits. */
  code(): string;
}

export const systemSecrets: Secrets = {
  token: () => randomBytes(32).toString("base64url"),
  code: () => randomInt(1_000_000).toString().padStart(6, "0"),
};

/** Hex SHA-256. */
export function sha256(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** Compares two hashes in a time that tells nothing about them. */
export function sameHash(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
}
