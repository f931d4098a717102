/**
 * Owns how a device gets its session: the requests, their decisions, the exchange of a challenge for a token
 * (control-plane-wire.md 2.5). Requests and challenges are in memory; a controller that restarts has
 * forgotten them, and the device asks again.
 */
import { randomUUID } from "node:crypto";
import type { ParamsOf } from "../../protocol/methods.ts";
import type { ActorSpec, Handlers } from "../../supervision/actor.ts";
import { type Entry, PairingBook, type PairingRequest } from "../node/pairing-book.ts";
import { type Secrets, sha256 } from "../node/secrets.ts";
import type { DeviceRecord } from "./record.ts";
import type { DeviceSessions } from "./sessions.ts";

type Asked = Pick<ParamsOf<"device.pair.request">, "deviceType" | "deviceName">;
interface Held {
  readonly deviceId: string;
}

export type DevicePairingProtocol = {
  /** Errors: `rate_limited`. */
  request: (ask: Asked) => PairingRequest<Asked>;
  /** Again, it gives another challenge. Errors: `pairing_not_found`, `pairing_not_pending`, `pairing_expired`. */
  approve: (ask: { readonly pairingId: string }) => {
    readonly request: PairingRequest<Asked>;
    readonly deviceId: string;
    readonly challenge: string;
    readonly challengeExpiresAtMs: number;
  };
  /** Errors: as `approve`. */
  reject: (ask: { readonly pairingId: string }) => PairingRequest<Asked>;
  /** Null when the challenge is none of a device's. Errors: `unauthorized`, and those of `DeviceSessions.begin`. */
  redeem: (ask: { readonly challenge: string }) => {
    readonly record: DeviceRecord;
    readonly sessionToken: string;
  } | null;
};

export interface DevicePairingOptions {
  readonly sessions: DeviceSessions;
  readonly secrets: Secrets;
}

export function devicePairingSpec({
  sessions,
  secrets,
}: DevicePairingOptions): ActorSpec<DevicePairingProtocol> {
  return {
    id: "devices",
    kind: "device-pairing",
    restart: "permanent",
    async start({ clock }) {
      await sessions.load();
      return { handlers: handlers(new PairingBook(clock, secrets), sessions, secrets) };
    },
  };
}

function handlers(
  book: PairingBook<Asked, Held>,
  sessions: DeviceSessions,
  secrets: Secrets,
): Handlers<DevicePairingProtocol> {
  const begin = async ({ request, held }: Entry<Asked, Held>) => {
    const sessionToken = secrets.token();
    const record = await sessions.begin({
      deviceId: held.deviceId,
      name: request.deviceName,
      type: request.deviceType,
      tokenHash: sha256(sessionToken),
    });
    return { record, sessionToken };
  };
  return {
    request: ({ deviceType, deviceName }) =>
      book.open({ deviceType, deviceName }, { deviceId: randomUUID() }).request,

    approve({ pairingId }) {
      const entry = book.find(pairingId);
      entry.status = "approved";
      const { challenge, expiresAtMs } = book.giveChallenge(entry);
      const { request, held } = entry;
      return {
        request,
        deviceId: held.deviceId,
        challenge,
        challengeExpiresAtMs: expiresAtMs,
      };
    },

    reject: ({ pairingId }) => book.reject(pairingId).request,

    redeem: ({ challenge }) => book.redeem(challenge, begin),
  };
}
