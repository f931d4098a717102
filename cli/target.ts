/**
 * Owns the question "which controller, and with which token?".
 *
 * 1. A named controller (`--controller`, `LEMON_CONTROLLER`) decides alone; else it is the one that
 *    runs here. Several are an error that lists them, never a guess.
 * 2. A token is handed only to whom it was given for: the managed file's to the controller that runs
 *    here, the others to the controller the user named.
 * 3. The controller that runs here is known by the certificate of its record, which only this account can
 *    have written: neither its name nor its authority has to be one that anybody trusts.
 */
import { join, resolve } from "node:path";
import { LemonError } from "../protocol/errors.ts";
import { variable } from "./arguments.ts";
import { openUserFile, readWhole } from "./bounded-read.ts";
import type { ControllerRecord } from "./controller-record.ts";
import { controllerUrl, isLoopback, isReadableOnTheWay } from "./controller-url.ts";
import { UsageError } from "./exit.ts";
import { printable, shellWord } from "./printable.ts";
import type { Shell } from "./shell.ts";

/** The flags that every command on a controller takes. */
export interface TargetFlags {
  readonly controller?: string;
  readonly operatorToken?: string;
  readonly operatorTokenFile?: string;
  readonly caFile?: string;
}

export interface Target {
  readonly url: string;
  readonly token: string | null;
  /** PEM of the authorities to trust instead of the system's. */
  readonly ca: string | null;
  /** PEM of the one certificate that it shows, when it runs here; goes before `ca`. */
  readonly certificate: string | null;
  /** What a command printed for later needs at its end to reach the same controller in the same way. */
  readonly suffix: string;
  /** Something the user should know before the connection is made. */
  readonly warning: string | null;
}

/** The state folder: `LEMON_HOME`, else `~/.lemon`. */
export function lemonHome(shell: Pick<Shell, "environment" | "cwd" | "homeDirectory">): string {
  const given = variable(shell.environment, "LEMON_HOME");
  return given === null ? join(shell.homeDirectory, ".lemon") : resolve(shell.cwd, given);
}

export async function resolveTarget(shell: Shell, flags: TargetFlags): Promise<Target> {
  const ca = await readCa(shell, flags);
  const givenToken = await readToken(shell, flags);
  const named = flags.controller ?? variable(shell.environment, "LEMON_CONTROLLER");
  if (named === null) {
    const { record, url } = await theOneThatRunsHere(shell);
    const token = givenToken ?? (await localToken(shell, record));
    const { certificate = null } = record;
    return { url, token, ca, certificate, suffix: suffixOf(flags, url), warning: null };
  }

  const flag = flags.controller === undefined ? "LEMON_CONTROLLER" : "--controller";
  const url = controllerUrl(flag, named);
  // The record is read for what only it tells: the token, or the certificate.
  const asks = givenToken === null || url.startsWith("wss:");
  const local = asks ? await localAt(shell, url) : null;
  const token = givenToken ?? (local === null ? null : await localToken(shell, local.record));
  return {
    url: local?.url ?? url,
    token,
    ca,
    certificate: local?.record.certificate ?? null,
    suffix: suffixOf(flags, url),
    warning:
      token !== null && isReadableOnTheWay(url)
        ? `the operator token crosses the network readable: ${printable(url)} is not wss://`
        : null,
  };
}

/** The environment stays with the user; flags have to be written again, but for a token. */
function suffixOf(flags: TargetFlags, url: string): string {
  const words: readonly (readonly [string, string | undefined])[] = [
    ["--controller", flags.controller === undefined ? undefined : url],
    ["--operator-token-file", flags.operatorTokenFile],
    ["--ca-file", flags.caFile],
  ];
  return words
    .map(([flag, value]) => (value === undefined ? "" : ` ${flag} ${shellWord(value)}`))
    .join("");
}

interface RunningHere {
  readonly record: ControllerRecord;
  readonly url: string;
}

async function theOneThatRunsHere(shell: Shell): Promise<RunningHere> {
  const running = await runningHere(shell);
  const [only] = running;
  if (only === undefined)
    throw new LemonError("unavailable", {
      message: "No controller runs here; start one with `lemon up`, or name one with --controller",
    });
  if (running.length > 1) {
    const urls = running.map(({ url }) => url).join(", ");
    throw new UsageError(`Several controllers run here: ${urls}`, "name one with --controller");
  }
  return only;
}

async function runningHere(shell: Shell): Promise<readonly RunningHere[]> {
  // Proving who lives needs native code; a command that is told its controller does not load it.
  const { controllerRecordUrl, readControllerRecords } = await import("./controller-record.ts");
  const found = await readControllerRecords(lemonHome(shell));
  return found.flatMap((entry) =>
    "record" in entry ? [{ record: entry.record, url: controllerRecordUrl(entry.record) }] : [],
  );
}

/**
 * The controller that runs here, when this is an address of its own; null when it is not. `localhost` is
 * then reached by the address that the record names: the name may stand for one that somebody else has.
 */
async function localAt(shell: Shell, url: string): Promise<RunningHere | null> {
  const { protocol, hostname, port, pathname } = new URL(url);
  if (!isLoopback(hostname)) return null;
  const asked = port === "" ? IMPLIED_PORT[protocol] : port;
  const found = (await runningHere(shell)).find(
    ({ record, url: own }) =>
      own.startsWith(`${protocol}//`) &&
      String(record.port) === asked &&
      listensAt(record, hostname),
  );
  if (found === undefined) return null;
  if (hostname !== "localhost") return { ...found, url };
  return { ...found, url: new URL(pathname, found.url).href };
}

const IMPLIED_PORT: Readonly<Record<string, string>> = { "ws:": "80", "wss:": "443" };

/** Whether a controller listens at a loopback address, as `URL.hostname` writes it. */
function listensAt({ host = "127.0.0.1" }: ControllerRecord, hostname: string): boolean {
  if (hostname === "localhost" || host === "::") return true;
  return host === "0.0.0.0" ? hostname !== "[::1]" : hostname.replace(/[[\]]/g, "") === host;
}

/** Errors: `operator_token_unusable`. */
async function localToken(shell: Shell, record: ControllerRecord): Promise<string | null> {
  if (record.tokenFile === null)
    return variable(shell.environment, "LEMON_CONTROL_PLANE_OPERATOR_TOKEN");
  const { readSecureFile } = await import("../host/secure-file.ts");
  try {
    const bytes = await readSecureFile(record.tokenFile);
    return bytes === null ? null : bytes.toString("utf8").trim();
  } catch (failure) {
    const { tokenFileRefusal } = await import("../actors/session/operator-token.ts");
    throw tokenFileRefusal(failure, record.port);
  }
}

const LARGEST_TOKEN_FILE_BYTES = 4_096;
/** A whole system's bundle of authorities is a quarter of this. */
const LARGEST_CA_FILE_BYTES = 1_048_576;

async function readToken(shell: Shell, flags: TargetFlags): Promise<string | null> {
  if (flags.operatorToken !== undefined && flags.operatorTokenFile !== undefined)
    throw new UsageError("--operator-token and --operator-token-file exclude each other");
  if (flags.operatorTokenFile !== undefined)
    return readTokenFile(shell, "--operator-token-file", flags.operatorTokenFile);
  return flags.operatorToken ?? variable(shell.environment, "LEMON_WS_TOKEN");
}

/** A token from a file the user names; only its content is judged, not its mode: it may be a mounted secret. */
export async function readTokenFile(
  shell: Pick<Shell, "cwd">,
  flag: string,
  path: string,
): Promise<string> {
  const file = openUserFile(shell.cwd, path);
  const text = (await readWhole(flag, file, LARGEST_TOKEN_FILE_BYTES)).toString("utf8").trim();
  if (text === "" || /\s/.test(text))
    throw new UsageError(`${flag} names a file that does not hold one token`);
  return text;
}

/** The file of authorities that a flag or `LEMON_CA_FILE` names, and by which of the two. */
export function caFileOf(
  { environment }: Pick<Shell, "environment">,
  { caFile }: Pick<TargetFlags, "caFile">,
): { readonly named: string; readonly path: string } | null {
  if (caFile !== undefined) return { named: "--ca-file", path: caFile };
  const path = variable(environment, "LEMON_CA_FILE");
  return path === null ? null : { named: "LEMON_CA_FILE", path };
}

async function readCa(shell: Shell, flags: TargetFlags): Promise<string | null> {
  const given = caFileOf(shell, flags);
  if (given === null) return null;
  const { named, path } = given;
  const file = openUserFile(shell.cwd, path);
  const pem = (await readWhole(named, file, LARGEST_CA_FILE_BYTES)).toString("utf8");
  if (!pem.includes("-----BEGIN CERTIFICATE-----"))
    throw new UsageError(`${named} names a file that holds no PEM certificate`);
  return pem;
}
