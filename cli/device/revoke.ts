/**
 * Owns `lemon device revoke`: which device is meant, and a change that is sent once. A lost answer is told
 * with the command that shows what is so.
 */
import type { Client } from "../../client/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import { withController } from "../dial.ts";
import { EXIT, UsageError } from "../exit.ts";
import { printable } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";

export function deviceRevoke(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  selector: string,
): Promise<number> {
  return withController(shell, report, flags, async (client, { suffix }) => {
    const { deviceId, shown } = await selectDevice(client, selector);
    try {
      const document = await client.call("device.revoke", { deviceId });
      const text = "is revoked: its connections and its token are cut off; pair it anew if need be";
      await report.result(document, () => `${shown} ${text}\n`);
      return EXIT.ok;
    } catch (error) {
      if (!(error instanceof LemonError) || !error.mutationMayHaveApplied) throw error;
      const settle = `${shell.lemon} device list${suffix}`;
      const exitCode = await report.failure(error, { deviceId, settle });
      await report.message(`see what is so with: ${settle}`);
      return exitCode;
    }
  });
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * The device with this id, else the one with this name. What looks like an id is never taken for a name, since
 * devices name themselves; and it need not be listed: one that was approved may not have come yet.
 */
async function selectDevice(
  client: Client,
  selector: string,
): Promise<{ readonly deviceId: string; readonly shown: string }> {
  if (UUID.test(selector)) return { deviceId: selector, shown: selector };
  const { devices } = await client.call("device.list", {});
  const name = selector.trim().normalize("NFC");
  const [found, ...others] = devices.filter(({ deviceName }) => deviceName === name);
  if (found === undefined)
    throw new LemonError("device_not_found", {
      message: `No device has the id or name ${printable(selector)}`,
    });
  if (others.length > 0)
    throw new UsageError(
      `several devices have the name ${printable(selector)}; name one by its id`,
      `they are: ${[found, ...others].map(({ deviceId }) => printable(deviceId)).join(" ")}`,
    );
  const { deviceId, deviceName } = found;
  return { deviceId, shown: `${printable(deviceName)} (${printable(deviceId)})` };
}
