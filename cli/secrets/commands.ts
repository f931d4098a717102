/** Owns the words of `lemon secrets`: its commands, flags and their help. */
import type { Command } from "commander";
import { type CommandContext, EXIT_CODES, leaf, onController } from "../command-parts.ts";
import type { TargetFlags } from "../target.ts";
import type { SetFlags } from "./set.ts";

const NODE = "name or durable id";

export function addSecrets(parent: Command, { shell, report, finish }: CommandContext): void {
  leaf(parent, "init", "make the master key of this machine's secrets")
    .addHelpText(
      "after",
      `
It lies in the account's keychain where there is one, else in LEMON_HOME/secrets_master_key (0600).
Instead, LEMON_SECRETS_MASTER_KEY may hold one for a controller or a node: base64 of at least 32 bytes.
`,
    )
    .action(async () => {
      const { secretsInit } = await import("./machine.ts");
      finish(await secretsInit(shell, report));
    });

  onController(leaf(parent, "status", "show where the master key comes from, and how the vault is"))
    .addHelpText(
      "after",
      "\nOf this machine, and of the controller when one is named or runs here.\n",
    )
    .action(async (flags: TargetFlags) => {
      const { secretsStatus } = await import("./machine.ts");
      finish(await secretsStatus(shell, report, flags));
    });

  onController(leaf(parent, "rotate", "make a new master key, and put every secret under it"))
    .argument("[node]", `${NODE} of the machine (default: the controller's)`)
    .addHelpText("after", ROTATION)
    .action(async (selector: string | undefined, flags: TargetFlags) => {
      const { secretsRotate } = await import("./change.ts");
      finish(await secretsRotate(shell, report, flags, selector ?? null));
    });

  onController(leaf(parent, "set", "put a secret into a node's vault; nothing shows it again"))
    .argument("<node>", NODE)
    .argument("<name>", "of the secret, up to 256 bytes")
    .option("--id <id>", "operation id of your own, spent for ever by its use (default: a new one)")
    .option("--exact", "keep a line end at the end of standard input")
    .addHelpText("after", SETTING)
    .action(async (selector: string, name: string, flags: SetFlags) => {
      const { secretsSet } = await import("./set.ts");
      finish(await secretsSet(shell, report, flags, selector, name));
    });

  onController(leaf(parent, "list", "list the names of a node's secrets"))
    .argument("<node>", NODE)
    .action(async (selector: string, flags: TargetFlags) => {
      const { secretsList } = await import("./show.ts");
      finish(await secretsList(shell, report, flags, selector));
    });

  onController(leaf(parent, "rm", "delete a secret from a node's vault"))
    .argument("<node>", NODE)
    .argument("<name>", "of the secret")
    .action(async (selector: string, name: string, flags: TargetFlags) => {
      const { secretsRemove } = await import("./change.ts");
      finish(await secretsRemove(shell, report, flags, selector, name));
    });

  onController(leaf(parent, "receipt", "show what became of an operation; changes nothing"))
    .argument("<node>", NODE)
    .argument("<id>", "operation id")
    .addHelpText("after", "\nExit codes: 0 it was applied, 122 no such operation.\n")
    .action(async (selector: string, id: string, flags: TargetFlags) => {
      const { secretsReceipt } = await import("./show.ts");
      finish(await secretsReceipt(shell, report, flags, selector, id));
    });
}

const SETTING = `
The value is asked for without being shown, or read from standard input when that is no terminal;
there it may end with one line end, which is left out. It is never an argument: others could see it.

Examples:
  lemon secrets set worker-1 integration/token
  printenv TOKEN | lemon secrets set worker-1 integration/token --id install:token-1
${EXIT_CODES}`;

const ROTATION = `
Earlier keys are kept beside the new one: other vaults of the account may need them. A key in
LEMON_SECRETS_MASTER_KEY is yours to change: put the earlier one into LEMON_SECRETS_MASTER_KEY_PREVIOUS,
and start again.
${EXIT_CODES}`;
