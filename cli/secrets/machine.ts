/** Owns `lemon secrets init | status`: the master key of this machine, and how the controller's vault is. */
import { systemClock } from "../../host/clock.ts";
import { machineKeys } from "../../host/master-key/from-machine.ts";
import type { MasterKeys } from "../../host/master-key/master-keys.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { variable } from "../arguments.ts";
import { withController } from "../dial.ts";
import { EXIT } from "../exit.ts";
import { counted, printable, table } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { lemonHome, type TargetFlags } from "../target.ts";

type VaultStatus = ResultOf<"secrets.status">;
type KeySource = VaultStatus["source"];

const WHERE: Readonly<Record<NonNullable<KeySource>, string>> = {
  keychain: "the account's keychain",
  env: "LEMON_SECRETS_MASTER_KEY",
  file: "LEMON_HOME/secrets_master_key",
};

export async function secretsInit(shell: Shell, report: Report): Promise<number> {
  const source = await keysOf(shell).create();
  await report.result({ source }, () => `a new master key lies in ${WHERE[source]}; keep a copy\n`);
  return EXIT.ok;
}

export async function secretsStatus(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
): Promise<number> {
  const machine = await keysOf(shell).status();
  const controller = await controllerStatus(shell, report, flags);
  await report.result({ machine, controller }, () =>
    table([
      ["master key here", sourceText(machine.source, shell)],
      ...(machine.keychainErrorKind === null
        ? []
        : [["keychain", printable(machine.keychainErrorKind)]]),
      ...(controller === null ? [] : controllerLines(controller, shell)),
    ]),
  );
  return EXIT.ok;
}

function keysOf(shell: Shell): MasterKeys {
  const { environment } = shell;
  return machineKeys({ home: lemonHome(shell), environment, clock: systemClock });
}

/** Null when none was named and none runs here: on a node's machine there mostly is none. */
async function controllerStatus(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
): Promise<VaultStatus | null> {
  const isNamed =
    flags.controller !== undefined || variable(shell.environment, "LEMON_CONTROLLER") !== null;
  try {
    return await withController(shell, report, flags, (client) =>
      client.call("secrets.status", {}),
    );
  } catch (error) {
    if (!isNamed && error instanceof LemonError && error.code === "unavailable") return null;
    throw error;
  }
}

function sourceText(source: KeySource, { lemon }: Shell): string {
  return source === null ? `none; make one with: ${lemon} secrets init` : WHERE[source];
}

function controllerLines(status: VaultStatus, shell: Shell): string[][] {
  const { problem } = status.summary;
  return [
    ["controller's master key", sourceText(status.source, shell)],
    [
      "controller's vault",
      status.healthy
        ? `healthy, ${counted(status.count ?? 0, "secret")}`
        : printable(typeof problem === "string" ? problem : "not healthy"),
    ],
  ];
}
