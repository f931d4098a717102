/**
 * Owns how a device gets its session: the requests, their decisions, the exchange of a challenge for a token
 * (control-plane-wire.md 2.5), and how that is taken from it. Requests and challenges are in memory; a
 * controller that restarts has forgotten them, and the device asks again.
 */
import { randomUUID } from "node:crypto";
import { LemonError } from "../../protocol/errors.ts";
import type { ParamsOf } from "../../protocol/methods.ts";
import type { ActorSpec, Handlers } from "../../supervision/actor.ts";
import { settlingSoon } from "../../transport/document-ledger.ts";
import { type Entry, PairingBook, type PairingRequest } from "../node/pairing-book.ts";
import { type Secrets, sha256 } from "../node/secrets.ts";
import type { DeviceRecord } from "./record.ts";
import type { DeviceSessions, ListedDevice } from "./sessions.ts";

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
  /** Errors: those of `DeviceSessions.list`. */
  list: (ask: null) => readonly ListedDevice[];
  /** Errors: `device_not_found` when nothing of it was good any more, and those of `DeviceSessions.revoke`. */
  revoke: (ask: { readonly deviceId: string }) => null;
  /** Its own: settles what the store has not told yet, or tries again later. */
  settle: (ask: null) => null;
};

const SETTLE_DEADLINE = { deadlineMs: 60_000 } as const;

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
    async start({ self, clock, signal }) {
      // One that has ended reads everything again when it is back.
      const settle = () => self.ask("settle", null, SETTLE_DEADLINE).catch(() => undefined);
      const settleLater = settlingSoon({ clock, signal }, settle);
      await sessions.load(settleLater);
      const book = new PairingBook<Asked, Held>(clock, secrets);
      return { handlers: handlers({ book, sessions, secrets, settleLater }) };
    },
  };
}

function handlers({
  book,
  sessions,
  secrets,
  settleLater,
}: {
  readonly book: PairingBook<Asked, Held>;
  readonly sessions: DeviceSessions;
  readonly secrets: Secrets;
  readonly settleLater: () => void;
}): Handlers<DevicePairingProtocol> {
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

    list: () => sessions.list(),

    async revoke({ deviceId }) {
      const withdraw = () => book.withdraw((held) => held.deviceId === deviceId);
      try {
        const hadSession = await sessions.revoke(deviceId);
        const wasApproved = withdraw();
        if (!hadSession && !wasApproved) throw new LemonError("device_not_found");
        return null;
      } catch (error) {
        if (error instanceof LemonError && error.mutationMayHaveApplied) withdraw();
        throw error;
      }
    },

    async settle() {
      try {
        await sessions.settle();
      } catch (error) {
        if (!(error instanceof LemonError)) throw error;
        settleLater();
      }
      return null;
    },
  };
}
