/**
 * Owns what a role does before it holds anything secret, so that its memory stays its own.
 *
 * 1. A crash leaves no core file, of it nor of what it starts.
 * 2. No signal opens a debugger or writes a heap snapshot or a report.
 * 3. No child is given a key or a token by the environment: they are taken out of it, and known to the role alone.
 *
 * It is no protection from the same account, which may trace its processes, nor from root.
 */
import { constants } from "node:os";
import { forbidCores } from "../../host/native/core-limit.ts";
import { GUARDED_SPACES, OPERATOR_TOKEN_VARIABLE } from "../../protocol/http.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const SECRETS = [
  "LEMON_SECRETS_MASTER_KEY",
  "LEMON_SECRETS_MASTER_KEY_PREVIOUS",
  OPERATOR_TOKEN_VARIABLE,
  ...GUARDED_SPACES.flatMap(({ variables }) => variables),
  "LEMON_WS_TOKEN",
  "LEMON_NODE_OPERATOR_TOKEN",
  "LEMON_NODE_TOKEN",
];

/** Node opens its inspector on the first; `--heapsnapshot-signal` is mostly given the second. */
const DIAGNOSTIC = ["SIGUSR1", "SIGUSR2"] as const;

/** The same options with an environment of their own. Called once, before the role takes any signal over. */
export function confidential<O extends { readonly environment: Environment }>(options: O): O {
  const environment = { ...options.environment };
  for (const name of SECRETS) delete process.env[name];
  forbidCores();
  for (const signal of Object.keys(constants.signals)) process.removeAllListeners(signal);
  for (const signal of DIAGNOSTIC) process.on(signal, () => {});
  const { report } = process;
  report.reportOnSignal = false;
  report.reportOnFatalError = false;
  report.reportOnUncaughtException = false;
  return { ...options, environment };
}
