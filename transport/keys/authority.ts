/**
 * Owns the keys that everything on the controller's own hub is signed with: the operator, its system
 * account (SYS) and the controller's account (LEMON).
 *
 * 1. One private file holds every seed, written whole or not at all: there is no state with some keys
 *    made and others not. JWTs are derived from it and never stored here.
 * 2. Keys are made only where nothing was ever signed: beside a resolver folder or account records of
 *    an earlier life a missing file is refused (`controller_keys_lost`), never replaced.
 * 3. The resolver folder is only seeded with the two accounts every start needs, and only for a
 *    resolver that is empty or ours.
 * 4. A seed leaves this room as signatures only, except for the two connections of the controller.
 */
import { readdir, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import {
  type Account,
  encodeAccount,
  encodeGeneric,
  encodeOperator,
  encodeUser,
} from "@nats-io/jwt";
import { createAccount, createOperator, createUser, type KeyPair } from "@nats-io/nkeys";
import { ensurePrivateDirectory, readSecureFile, writeSecureFile } from "../../host/secure-file.ts";
import { errnoOf } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import { claimsOf, controllerAccount, saysSame, systemAccount } from "./claims.ts";
import { newSigningKey, signingKey } from "./signing-key.ts";

const FILE = "authority.json";
const VERSION = 1;
const ROLES = ["operator", "system", "controller", "systemUser", "controllerUser"] as const;
type Role = (typeof ROLES)[number];
const PREFIX: Readonly<Record<Role, string>> = {
  operator: "O",
  system: "A",
  controller: "A",
  systemUser: "U",
  controllerUser: "U",
};

/** What a connection authenticates with (`jwtAuthenticator(jwt, seed)` of the NATS client). */
export interface Credentials {
  readonly jwt: string;
  readonly seed: Uint8Array;
}

/** What accounts are made with. */
export interface AccountSigner {
  /** Public key of the account that the controller's own connection is in. */
  readonly controllerAccount: string;
  /** Signs the claims of an account. */
  signAccount(name: string, key: string, account: Partial<Account>): Promise<string>;
  /** Signs the order to delete accounts (`$SYS.REQ.CLAIMS.DELETE`). */
  signDeletion(keys: readonly string[]): Promise<string>;
}

export interface Authority extends AccountSigner {
  readonly operatorJwt: string;
  /** Public key. */
  readonly systemAccount: string;
  /** For the one connection that manages accounts and watches the hub. */
  readonly systemCredentials: Credentials;
  /** For the controller's own connection. */
  readonly controllerCredentials: Credentials;
}

export interface AuthorityPlaces {
  /** The keys' own folder; made with mode 0700 when missing. */
  readonly keysFolder: string;
  /** Where account records lie (`account-records.ts`); never made here. */
  readonly recordsFolder: string;
  /** Folder of the hub's full resolver. */
  readonly resolverFolder: string;
}

/**
 * Opens the keys, or makes them on the very first start, and seeds the resolver. To be called with the
 * controller's lock held and its hub not running.
 * Errors: `controller_keys_lost` (`details.reason`: `missing`, `damaged`, `foreign`), and those of
 * private files.
 */
export async function openAuthority(places: AuthorityPlaces): Promise<Authority> {
  await ensurePrivateDirectory(places.keysFolder);
  await removeDrafts(places.keysFolder);
  const keys = (await readKeys(places.keysFolder)) ?? (await makeKeys(places));
  const authority = await derive(keys);
  await seedResolver(authority, keys, places.resolverFolder);
  return authority;
}

type Keys = Readonly<Record<Role, KeyPair>>;

async function readKeys(folder: string): Promise<Keys | null> {
  const bytes = await readSecureFile(join(folder, FILE));
  if (bytes === null) return null;
  try {
    const stored: unknown = JSON.parse(bytes.toString("utf8"));
    if (!isRecord(stored) || stored["version"] !== VERSION) throw lost("damaged");
    return eachRole((role) => keyOf(role, stored[role]));
  } catch {
    throw lost("damaged");
  } finally {
    bytes.fill(0);
  }
}

function keyOf(role: Role, seed: unknown): KeyPair {
  if (typeof seed !== "string") throw lost("damaged");
  const pair = signingKey(new TextEncoder().encode(seed));
  if (!pair.getPublicKey().startsWith(PREFIX[role])) throw lost("damaged");
  return pair;
}

async function makeKeys(places: AuthorityPlaces): Promise<Keys> {
  const signedBefore =
    (await names(places.resolverFolder)).some((name) => name.endsWith(".jwt")) ||
    (await names(places.recordsFolder)).some((name) => name.endsWith(".json"));
  if (signedBefore) throw lost("missing");
  const keys: Keys = {
    operator: newSigningKey(createOperator),
    system: newSigningKey(createAccount),
    controller: newSigningKey(createAccount),
    systemUser: newSigningKey(createUser),
    controllerUser: newSigningKey(createUser),
  };
  const text = new TextDecoder();
  const seeds = eachRole((role) => text.decode(keys[role].getSeed()));
  const content = JSON.stringify({ version: VERSION, ...seeds });
  await writeSecureFile(join(places.keysFolder, FILE), `${content}\n`);
  return keys;
}

async function derive(keys: Keys): Promise<Authority> {
  const { operator, system, controller, systemUser, controllerUser } = keys;
  const user = async (name: string, pair: KeyPair, account: KeyPair): Promise<Credentials> => ({
    jwt: await encodeUser(name, pair, account, { allowed_connection_types: ["STANDARD"] }),
    seed: pair.getSeed(),
  });
  const operatorClaims = { system_account: system.getPublicKey() };
  return {
    operatorJwt: await encodeOperator("lemon", operator, operatorClaims),
    systemAccount: system.getPublicKey(),
    controllerAccount: controller.getPublicKey(),
    systemCredentials: await user("system", systemUser, system),
    controllerCredentials: await user("controller", controllerUser, controller),
    signAccount: (name, key, account) => encodeAccount(name, key, account, { signer: operator }),
    signDeletion: (accounts) =>
      encodeGeneric("delete", operator, "generic", { accounts: [...accounts] }),
  };
}

/** Puts SYS and LEMON where the resolver finds them, when they are not there as they should be. */
async function seedResolver(authority: Authority, keys: Keys, folder: string): Promise<void> {
  await ensurePrivateDirectory(folder);
  await removeDrafts(folder);
  const present = (await names(folder)).filter((name) => name.endsWith(".jwt"));
  const seeds = [
    { name: "SYS", key: authority.systemAccount, claims: systemAccount() },
    { name: "LEMON", key: authority.controllerAccount, claims: controllerAccount() },
  ];
  if (present.length > 0 && !seeds.some(({ key }) => present.includes(`${key}.jwt`))) {
    throw lost("foreign");
  }
  for (const { name, key, claims } of seeds) {
    const path = join(folder, `${key}.jwt`);
    const current = present.includes(`${key}.jwt`) ? await readFile(path, "utf8") : "";
    if (!holds(current, claims, keys.operator.getPublicKey())) {
      await writeSecureFile(path, await authority.signAccount(name, key, claims));
    }
  }
}

/** Whether a stored account's JWT is the operator's and says what `wanted` says. */
function holds(jwt: string, wanted: Partial<Account>, operator: string): boolean {
  const claims = claimsOf(jwt);
  return isRecord(claims) && claims["iss"] === operator && saysSame(claims["nats"], wanted);
}

/** What a killed writer left behind means nothing, and may hold seeds. */
async function removeDrafts(folder: string): Promise<void> {
  for (const name of await names(folder)) {
    if (name.endsWith(".tmp")) await unlink(join(folder, name));
  }
}

async function names(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (failure) {
    if (errnoOf(failure) === "ENOENT") return [];
    throw failure;
  }
}

function eachRole<T>(make: (role: Role) => T): Readonly<Record<Role, T>> {
  return {
    operator: make("operator"),
    system: make("system"),
    controller: make("controller"),
    systemUser: make("systemUser"),
    controllerUser: make("controllerUser"),
  };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const SENTENCES = {
  missing:
    "The controller's keys are missing but its hub has accounts they signed; restore them from a copy, or start with a new state folder and join the nodes again",
  damaged:
    "The controller's keys are damaged; restore them from a copy, or start with a new state folder and join the nodes again",
  foreign:
    "The hub's accounts were signed by other keys than the controller's; restore what belongs together, or start with a new state folder and join the nodes again",
} as const;

function lost(reason: keyof typeof SENTENCES): LemonError {
  return new LemonError("controller_keys_lost", {
    message: SENTENCES[reason],
    details: { reason },
  });
}
