/** Owns `lemon device list`. */
import type { ResultOf } from "../../protocol/methods.ts";
import { withController } from "../dial.ts";
import { EXIT } from "../exit.ts";
import { durationText, printable, table } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";

export type DeviceRow = ResultOf<"device.list">["devices"][number];

export async function deviceList(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
): Promise<number> {
  const list = await withController(shell, report, flags, (client) =>
    client.call("device.list", {}),
  );
  await report.result(list, () =>
    list.devices.length === 0
      ? "No device holds a session.\n"
      : table([["NAME", "TYPE", "CONNECTIONS", "TOKEN", "ID"], ...list.devices.map(row)]),
  );
  return EXIT.ok;
}

function row(device: DeviceRow): string[] {
  return [
    printable(device.deviceName),
    printable(device.deviceType),
    String(device.connections),
    tokenText(device.expiresAtMs, Date.now()),
    printable(device.deviceId),
  ];
}

function tokenText(expiresAtMs: number, nowMs: number): string {
  return expiresAtMs <= nowMs ? "expired" : `ends in ${durationText(expiresAtMs - nowMs)}`;
}
