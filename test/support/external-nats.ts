/**
 * Owns a NATS system of somebody else for tests: an operator that is not the controller's, its system
 * account, an account for the controller, and the files that it hands out.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Account, encodeAccount, encodeOperator, encodeUser, fmtCreds } from "@nats-io/jwt";
import { createAccount, createOperator, createUser, type KeyPair } from "@nats-io/nkeys";
import { jwtAuthenticator, type NatsConnection } from "@nats-io/transport-node";
import { controllerAccount, systemAccount } from "../../transport/keys/claims.ts";
import { hubConfig, type ServerPlaces } from "../../transport/nats-server/config.ts";
import { startServer, type TestServer } from "./nats.ts";
import { type TempFolder, tempFolder } from "./temp-folder.ts";

/** The flags by which a controller is told of it. */
export const NATS_FLAGS = [
  "--nats",
  "--nats-creds",
  "--nats-sys-creds",
  "--nats-operator-key",
  "--nats-leaf-url",
] as const;
export type NatsFlag = (typeof NATS_FLAGS)[number];

export interface NatsOperator extends Disposable {
  readonly folder: string;
  readonly operatorJwt: string;
  /** Public keys. */
  readonly systemAccount: string;
  readonly controllerAccount: string;
  /** Paths of the files it hands out. */
  readonly creds: string;
  readonly sysCreds: string;
  readonly operatorKey: string;
  /** A resolver's folder that holds its two accounts. */
  seedResolver(name: string): string;
  /** The controller's account as JWT, with other claims. */
  controllerJwt(claims: Partial<Account>): Promise<string>;
  /** Credentials of a user of an account of its own making, on file. */
  handOut(name: string, account: KeyPair, exp?: number): Promise<string>;
  connect(server: TestServer, as: "system" | "controller"): Promise<NatsConnection>;
}

export interface NatsOperatorOptions {
  /** What the controller's account says. Default: all that lemon needs. */
  readonly claims?: Partial<Account>;
}

/** Signs with a signing key, as operators do who keep their identity offline. */
export async function natsOperator(options: NatsOperatorOptions = {}): Promise<NatsOperator> {
  const { claims = controllerAccount() } = options;
  const folder: TempFolder = tempFolder();
  const at = (name: string): string => join(folder.path, name);
  const keys = {
    operator: createOperator(),
    signing: createOperator(),
    system: createAccount(),
    controller: createAccount(),
  };
  const sign = (name: string, account: KeyPair, said: Partial<Account>): Promise<string> =>
    encodeAccount(name, account, said, { signer: keys.signing });
  const operatorJwt = await encodeOperator("somebody", keys.operator, {
    system_account: keys.system.getPublicKey(),
    signing_keys: [keys.signing.getPublicKey()],
  });
  const jwts = new Map([
    [keys.system.getPublicKey(), await sign("SYS", keys.system, systemAccount())],
    [keys.controller.getPublicKey(), await sign("CONTROLLER", keys.controller, claims)],
  ]);
  const users = {
    system: createUser(),
    controller: createUser(),
  };
  const userJwts = {
    system: await encodeUser("system", users.system, keys.system),
    controller: await encodeUser("controller", users.controller, keys.controller),
  };
  const write = (name: string, content: Uint8Array | string): string => {
    writeFileSync(at(name), content, { mode: 0o600 });
    return at(name);
  };

  return {
    folder: folder.path,
    operatorJwt,
    systemAccount: keys.system.getPublicKey(),
    controllerAccount: keys.controller.getPublicKey(),
    creds: write("controller.creds", fmtCreds(userJwts.controller, users.controller)),
    sysCreds: write("system.creds", fmtCreds(userJwts.system, users.system)),
    operatorKey: write("operator.nk", `${seedOf(keys.signing)}\n`),
    seedResolver(name) {
      mkdirSync(at(name), { mode: 0o700 });
      for (const [key, jwt] of jwts) writeFileSync(join(at(name), `${key}.jwt`), jwt);
      return at(name);
    },
    controllerJwt: (said) => sign("CONTROLLER", keys.controller, said),
    async handOut(name, account, exp) {
      const user = createUser();
      const expiry = exp === undefined ? {} : { exp };
      const jwt = await encodeUser(name, user, account, {}, expiry);
      return write(`${name}.creds`, fmtCreds(jwt, user));
    },
    connect(server, as) {
      const seed = users[as].getSeed();
      return server.connect({ authenticator: jwtAuthenticator(userJwts[as], seed) });
    },
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

export function seedOf(key: KeyPair): string {
  return new TextDecoder().decode(key.getSeed());
}

export interface ExternalNats extends AsyncDisposable {
  readonly operator: NatsOperator;
  readonly server: TestServer;
  readonly url: string;
  /** Where it takes leafs. */
  readonly leafUrl: string;
  /** And by websocket. */
  readonly websocketUrl: string;
  /** The command line of a controller on it, without some of the flags or with other values. */
  flags(changes?: Readonly<Partial<Record<NatsFlag, string | null>>>): string[];
}

export interface ExternalNatsOptions extends NatsOperatorOptions {
  /** Changes the text of its configuration. */
  readonly configure?: (config: string, places: ServerPlaces) => string;
}

/** One server, configured as `docs/external-nats.md` asks. */
export async function startExternalNats(options: ExternalNatsOptions = {}): Promise<ExternalNats> {
  const { configure = (config) => config } = options;
  const operator = await natsOperator(options);
  const { operatorJwt, systemAccount: system } = operator;
  const jwtDirectory = operator.seedResolver("jwt");
  const hub = { serverName: "theirs", operatorJwt, systemAccount: system, jwtDirectory };
  const server = await startServer((places) => configure(hubConfig(hub, places), places));
  const { client, leaf, websocket } = server.child.ports;
  const url = `nats://127.0.0.1:${client}`;
  const leafUrl = `nats://127.0.0.1:${leaf}`;
  return {
    operator,
    server,
    url,
    leafUrl,
    websocketUrl: `ws://127.0.0.1:${websocket}`,
    flags: (changes = {}) =>
      flagsOf({
        "--nats": url,
        "--nats-creds": operator.creds,
        "--nats-sys-creds": operator.sysCreds,
        "--nats-operator-key": operator.operatorKey,
        "--nats-leaf-url": leafUrl,
        ...changes,
      }),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      operator[Symbol.dispose]();
    },
  };
}

export function flagsOf(flags: Readonly<Partial<Record<NatsFlag, string | null>>>): string[] {
  return NATS_FLAGS.flatMap((flag) => {
    const value = flags[flag] ?? null;
    return value === null ? [] : [flag, value];
  });
}
