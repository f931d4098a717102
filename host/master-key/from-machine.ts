/** Owns the master key of this machine as a role finds it: the keychain, the environment, the file. */
import { homedir } from "node:os";
import { Secret } from "../../protocol/secret.ts";
import type { Clock } from "../clock.ts";
import { changingKeys, keyFile, watchKeys } from "./key-file.ts";
import { keychain } from "./keychain.ts";
import { type KeyTexts, type MasterKeys, masterKeys } from "./master-keys.ts";

export interface MachineKeysOptions {
  /** lemon's state folder. */
  readonly home: string;
  /** Read once, here: whoever starts children takes both variables out of it afterwards. */
  readonly environment: NodeJS.ProcessEnv;
  readonly clock: Clock;
}

export const MASTER_KEY_VARIABLE = "LEMON_SECRETS_MASTER_KEY";
/** The key before, while the vaults are put under a new one. */
export const PREVIOUS_KEY_VARIABLE = "LEMON_SECRETS_MASTER_KEY_PREVIOUS";

export function machineKeys({ home, environment, clock }: MachineKeysOptions): MasterKeys {
  return masterKeys({
    keychain: keychain({
      platform: process.platform,
      environment,
      clock,
      home,
      accountHome: homedir(),
    }),
    environment: variables(environment),
    file: keyFile(home),
    exclusively: (change) => changingKeys(home, change),
    watch: (onChange) => watchKeys(home, onChange),
  });
}

function variables(environment: NodeJS.ProcessEnv): KeyTexts {
  return {
    current: variable(environment, MASTER_KEY_VARIABLE),
    previous: variable(environment, PREVIOUS_KEY_VARIABLE),
  };
}

/** An empty one is as good as none. */
function variable(environment: NodeJS.ProcessEnv, name: string): Secret | null {
  const text = environment[name] ?? "";
  return text === "" ? null : Secret.ofText(text);
}
