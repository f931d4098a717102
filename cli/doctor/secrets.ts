/** Owns the doctor's look at secrets: this machine's master key, the controller's vault, and those of its nodes. */
import { join } from "node:path";
import type { Client } from "../../client/index.ts";
import { systemClock } from "../../host/clock.ts";
import { MASTER_KEY_VARIABLE, machineKeys } from "../../host/master-key/from-machine.ts";
import { MASTER_KEY_FILE } from "../../host/master-key/key-file.ts";
import { LemonError } from "../../protocol/errors.ts";
import { variable } from "../arguments.ts";
import { counted, shellWord } from "../printable.ts";
import { type Finding, fail, ok, warn } from "./check.ts";

const NAME = "master key here";
const WHERE = {
  keychain: "in the account's keychain",
  env: `in ${MASTER_KEY_VARIABLE} here; a role has the one that it was started with`,
  file: `in ${MASTER_KEY_FILE} of the state folder`,
} as const;

/** Whether a role that is started in this environment would find a key, and may use it. */
export async function checkMasterKey(
  home: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Finding> {
  const keys = machineKeys({ home, environment: { ...environment }, clock: systemClock });
  try {
    const found = await keys.read();
    for (const one of found === null ? [] : [found.key, ...found.previous]) one.destroy();
    const { keychainErrorKind } = await keys.status();
    const where = found === null ? null : WHERE[found.source];
    if (keychainErrorKind !== null) {
      const instead = where ?? "there is none elsewhere";
      return warn(
        NAME,
        `the keychain does not serve (${keychainErrorKind}): ${instead}`,
        "unlock the keychain, or put the key that its secrets are under into its place",
      );
    }
    return ok(
      NAME,
      where ?? "none: `lemon secrets init` makes one where secrets are to be kept for a node",
    );
  } catch (error) {
    if (!(error instanceof LemonError)) throw error;
    return unusable(error, home, environment);
  }
}

function unusable(
  error: LemonError,
  home: string,
  environment: Readonly<Record<string, string | undefined>>,
): Finding {
  const file = shellWord(join(home, MASTER_KEY_FILE));
  if (error.code === "weak_master_key") {
    const isVariable = variable(environment, MASTER_KEY_VARIABLE) !== null;
    return fail(
      NAME,
      `what is ${isVariable ? `in ${MASTER_KEY_VARIABLE}` : `in ${MASTER_KEY_FILE}`} is not base64 of at least 32 bytes`,
      isVariable
        ? `put the key there that the secrets are under; where there are none: unset ${MASTER_KEY_VARIABLE}, and \`lemon secrets init\``
        : `put the key there that the secrets are under; where there are none: rm ${file}, and \`lemon secrets init\``,
    );
  }
  const reason = String(error.details["reason"] ?? error.code);
  return fail(
    NAME,
    `its file can not be used (${reason})`,
    `${file} and ${file}.previous must be regular files of this account with one name and mode 0600: chmod 600, or put a copy in their place`,
  );
}

const KEY_MENDS: Readonly<Record<string, string>> = {
  secret_key_mismatch:
    "put back the key that they are under (secrets_master_key, with its .previous); without a copy begin anew, as of a damaged vault (docs/sre.md)",
  weak_master_key: "put back the key that its secrets are under",
  secret_store_unavailable: "see its log, and the disk of its nats-server",
  durability_unproven: "its nats-server must sync always: at least 2.12.7, with our own settings",
  no_space: "free space on its disk",
};
const DAMAGED_MEND =
  "nothing is set or said to be absent until it is mended; what is intact is used on. Begin it anew as docs/sre.md says (`secret_store_damaged`), and set the secrets again";

/** Whether the controller's key opens what its vault holds. */
export async function checkControllersVault(client: Client): Promise<Finding> {
  const name = "controller's vault";
  try {
    const { healthy, source, count, summary } = await client.call("secrets.status", {});
    const problem = String(summary["problem"] ?? "unhealthy");
    if (healthy) {
      return ok(
        name,
        `${counted(count ?? 0, "secret")}, and its master key (${source ?? "none"}) opens them`,
      );
    }
    if (problem === "secret_store_damaged") return fail(name, problem, DAMAGED_MEND);
    if (problem !== "secret_key_missing")
      return fail(name, problem, KEY_MENDS[problem] ?? "see the controller's log");
    return count === 0
      ? ok(name, "empty, and without a master key: `lemon secrets init` there, to use it")
      : fail(name, problem, "put the key back that its secrets are under");
  } catch (error) {
    if (!(error instanceof LemonError)) throw error;
    return warn(name, `can not be asked (${error.code})`, "see the controller's log");
  }
}

/** Null when there is nothing to say: it has none, it is well, or this token may not look. */
export async function checkNodesVault(
  client: Client,
  nodeId: string,
  name: string,
): Promise<Finding | null> {
  try {
    await client.call("node.secrets.list", { nodeId });
    return null;
  } catch (error) {
    if (!(error instanceof LemonError)) throw error;
    if (error.code === "secret_store_damaged") return fail(name, error.code, DAMAGED_MEND);
    const mend = KEY_MENDS[error.code];
    return mend === undefined ? null : warn(name, error.code, mend);
  }
}
