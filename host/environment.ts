/** Owns what of this process's environment a native process is given: the account's, not lemon's own. */

export type Environment = Readonly<Record<string, string>>;

/** Ours, Node's, npm's and the service manager's: meant for the process that was started with them. */
const PRIVATE_PREFIXES = ["LEMON_", "MALMO_", "NODE_", "npm_", "LISTEN_", "WATCHDOG_"];
const PRIVATE_NAMES: ReadonlySet<string> = new Set([
  "INIT_CWD",
  "NOTIFY_SOCKET",
  "INVOCATION_ID",
  "JOURNAL_STREAM",
  "CREDENTIALS_DIRECTORY",
  // Of the shell that started us; wrong in any other directory.
  "PWD",
  "OLDPWD",
  "SHLVL",
  "_",
]);

/** A copy without secrets and settings of lemon's own. `PATH` is always there (the system's default, when it was missing). */
export function environmentForRuns(own: NodeJS.ProcessEnv): Environment {
  const kept = Object.entries(own).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !isPrivate(entry[0]),
  );
  return { PATH: "/usr/local/bin:/usr/bin:/bin", ...Object.fromEntries(kept) };
}

function isPrivate(name: string): boolean {
  return PRIVATE_NAMES.has(name) || PRIVATE_PREFIXES.some((prefix) => name.startsWith(prefix));
}
