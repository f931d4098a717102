/** Examples of the methods of `protocol/methods/devices.ts`: devices and their pairing. */
import type { DEVICE_METHODS } from "../../../protocol/methods/devices.ts";
import { atMs, deviceName, type ExamplesOf, pairingId } from "./cast.ts";

const deviceId = "5f3d0a3e-0f0b-4f3c-8a49-2b1f6c1d7e90";

export const DEVICE_EXAMPLES: ExamplesOf<typeof DEVICE_METHODS> = {
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
};
