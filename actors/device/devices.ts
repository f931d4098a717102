/**
 * The door of paired devices: their methods, their sessions, what their challenges are worth.
 *
 *   /devices          requests and challenges in memory; session tokens in the store
 *
 * `device.list` and `device.revoke` are beyond the contract, which names no way to take a session back before
 * its seven days are over.
 */
import type { EventName, PayloadOf } from "../../protocol/events.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import type { SupervisorRef } from "../../supervision/actor.ts";
import type { DocumentsOptions } from "../../transport/documents.ts";
import { PAIRING_ATTEMPTS, type RedeemDevice } from "../node/enrolment-methods.ts";
import { type Secrets, sha256, systemSecrets } from "../node/secrets.ts";
import { Attempts } from "../session/attempts.ts";
import type { SessionTokens } from "../session/authenticate.ts";
import type { MethodHandlers } from "../session/handler.ts";
import { devicePairingSpec } from "./pairing.ts";
import { type DeviceRecord, deviceRecord, SESSION_TTL_MS } from "./record.ts";
import { DeviceSessions, type DeviceSessionsOptions, type ListedDevice } from "./sessions.ts";

/** Where device records lie: for `openDocuments`, with the controller's connection. */
export const DEVICE_DOCUMENTS: Pick<DocumentsOptions<DeviceRecord>, "bucket" | "parse"> = {
  bucket: "lemon-devices",
  parse: (stored) => deviceRecord.parse(stored),
};

type DeviceMethod =
  | "device.pair.request"
  | "device.pair.approve"
  | "device.pair.reject"
  | "device.list"
  | "device.revoke";

export interface DevicesOptions extends DeviceSessionsOptions {
  /** Where the actor of this room is started, under the id `devices`. */
  readonly parent: SupervisorRef;
  readonly publish: <E extends EventName>(event: E, payload: PayloadOf<E>) => void;
  readonly secrets?: Secrets;
}

export interface Devices {
  readonly methods: MethodHandlers<DeviceMethod>;
  readonly sessionTokens: SessionTokens;
  readonly redeem: RedeemDevice;
}

/** Some requests to the store, of up to 5 s each; below a method's 30 s. */
const DEADLINE = { deadlineMs: 25_000 } as const;

/** Resolves when the devices are known. Errors: those of `Documents`. */
export async function openDevices(options: DevicesOptions): Promise<Devices> {
  const { parent, clock, publish, secrets = systemSecrets } = options;
  const sessions = new DeviceSessions(options);
  const requests = new Attempts(clock, PAIRING_ATTEMPTS);
  const pairing = await parent.startActor(devicePairingSpec({ sessions, secrets }));

  return {
    methods: {
      "device.pair.request": async (params, { remoteAddress }) => {
        requests.spend(remoteAddress);
        const request = await pairing.ask("request", params, DEADLINE);
        const { pairingId, code, deviceType, deviceName, expiresAtMs } = request;
        publish("device.pair.requested", { pairingId, deviceType, deviceName });
        return { pairingId, code, expiresAtMs, summary: { pairingId, deviceType, expiresAtMs } };
      },

      "device.pair.approve": async ({ pairingId }) => {
        const approval = await pairing.ask("approve", { pairingId }, DEADLINE);
        const { request, deviceId, challenge, challengeExpiresAtMs } = approval;
        const { deviceType, deviceName } = request;
        const status = "approved";
        publish("device.pair.resolved", { pairingId, status, deviceType, deviceName });
        return {
          pairingId,
          deviceId,
          challengeToken: challenge,
          approved: true,
          summary: { pairingId, deviceId, approved: true, deviceType, challengeExpiresAtMs },
        };
      },

      "device.pair.reject": async ({ pairingId }) => {
        const { deviceType, deviceName } = await pairing.ask("reject", { pairingId }, DEADLINE);
        const status = "rejected";
        publish("device.pair.resolved", { pairingId, status, deviceType, deviceName });
        return { pairingId, rejected: true, summary: { pairingId, rejected: true, deviceType } };
      },

      "device.list": async () => {
        const listed = await pairing.ask("list", null, DEADLINE);
        return { devices: listed.map(row), summary: { deviceCount: listed.length } };
      },

      "device.revoke": async ({ deviceId }) => {
        await pairing.ask("revoke", { deviceId }, DEADLINE);
        return { deviceId, revoked: true };
      },
    },

    sessionTokens: { identify: async (token) => sessions.identify(sha256(token)) },

    async redeem(challenge) {
      const redeemed = await pairing.ask("redeem", { challenge }, DEADLINE);
      if (redeemed === null) return null;
      const { record, sessionToken } = redeemed;
      const { deviceId, name: deviceName } = record;
      return {
        verified: true,
        identity: { type: "device", deviceId, deviceName },
        token: sessionToken,
        summary: {
          verified: true,
          identityType: "device",
          identityId: deviceId,
          tokenTtlMs: SESSION_TTL_MS,
        },
      };
    },
  };
}

function row({ record, connections }: ListedDevice): ResultOf<"device.list">["devices"][number] {
  const { deviceId, name: deviceName, type: deviceType, issuedAtMs, expiresAtMs } = record;
  return { deviceId, deviceName, deviceType, issuedAtMs, expiresAtMs, connections };
}
