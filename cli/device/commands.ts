/** Owns the words of `lemon device`: its commands and their help. */
import type { Command } from "commander";
import { type CommandContext, leaf, onController } from "../command-parts.ts";
import type { TargetFlags } from "../target.ts";

export function addDevices(parent: Command, { shell, report, finish }: CommandContext): void {
  onController(leaf(parent, "list", "list the devices that hold a session")).action(
    async (flags: TargetFlags) => {
      const { deviceList } = await import("./list.ts");
      finish(await deviceList(shell, report, flags));
    },
  );

  onController(leaf(parent, "revoke", "cut a device off at once and for good"))
    .argument("<device>", "its id, or its name when no other device has it")
    .action(async (selector: string, flags: TargetFlags) => {
      const { deviceRevoke } = await import("./revoke.ts");
      finish(await deviceRevoke(shell, report, flags, selector));
    });
}
