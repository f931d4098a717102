/**
 * Owns a NATS system of somebody else for tests: an operator that is not the controller's, its system
 * account, an account for the controller, and the files that it hands out.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Account, encodeAccount, encodeOperator, encodeUser, fmtCreds } from "@nats-io/jwt";
import { createAccount, createOperator, createUser, type KeyPair } from "@nats-io/nkeys";
import { jwtAuthenticator, type NatsConnection } from "@nats-io/transport-node";
import { z } from "zod";
import type { AccountSigner } from "../../transport/keys/authority.ts";
import { controllerAccount, systemAccount } from "../../transport/keys/claims.ts";
import { openOperatorKey } from "../../transport/keys/handed-keys.ts";
import { hubConfig } from "../../transport/nats-server/config.ts";
import { choosePorts } from "../../transport/nats-server/ports.ts";
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
  /** Its two accounts, by key. */
  readonly accounts: ReadonlyMap<string, string>;
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
  const accounts = new Map([
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
    accounts,
    creds: write("controller.creds", fmtCreds(userJwts.controller, users.controller)),
    sysCreds: write("system.creds", fmtCreds(userJwts.system, users.system)),
    operatorKey: write("operator.nk", `${seedOf(keys.signing)}\n`),
    seedResolver(name) {
      mkdirSync(at(name), { mode: 0o700 });
      for (const [key, jwt] of accounts) writeFileSync(join(at(name), `${key}.jwt`), jwt);
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
  readonly configure?: (config: string, operator: NatsOperator) => string;
}

/** Has a server's accounts stand in its configuration. */
export function memoryResolver(config: string, { accounts }: NatsOperator): string {
  const preload = [...accounts].map(([key, jwt]) => `${key}: ${jwt}`).join("\n");
  return config.replace(/^resolver: .*$/m, `resolver: MEMORY\nresolver_preload: {\n${preload}\n}`);
}

/** One server, configured as `docs/external-nats.md` asks. */
export async function startExternalNats(options: ExternalNatsOptions = {}): Promise<ExternalNats> {
  const { configure = (config) => config } = options;
  const operator = await natsOperator(options);
  const { operatorJwt, systemAccount: system } = operator;
  const jwtDirectory = operator.seedResolver("jwt");
  const hub = { serverName: "theirs", operatorJwt, systemAccount: system, jwtDirectory };
  const server = await startServer((places) => configure(hubConfig(hub, places), operator));
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

export interface ExternalCluster extends AsyncDisposable {
  readonly operator: NatsOperator;
  readonly servers: readonly TestServer[];
  /** Of all of them. */
  readonly url: string;
  readonly leafUrl: string;
}

/** Several servers with routes between them, each with JetStream; resolves when JetStream has its leader. */
export async function startExternalCluster(size: number): Promise<ExternalCluster> {
  const operator = await natsOperator();
  const { operatorJwt, systemAccount: system } = operator;
  const folders = Array.from({ length: size }, (_, index) => {
    const directory = join(operator.folder, `server-${index}`);
    mkdirSync(directory, { mode: 0o700 });
    return directory;
  });
  // Nobody connects by websocket here: that port is the one of the routes.
  const routePorts: number[] = [];
  for (const directory of folders) {
    routePorts.push((await choosePorts(join(directory, "ports.json"))).websocket);
  }
  const routes = routePorts.map((port) => `"nats://127.0.0.1:${port}"`).join(", ");
  const servers = await Promise.all(
    folders.map((directory, index) => {
      const jwtDirectory = operator.seedResolver(`jwt-${index}`);
      const hub = { serverName: `s${index}`, operatorJwt, systemAccount: system, jwtDirectory };
      return startServer(
        (places) =>
          hubConfig(hub, places).replace(
            /^websocket .*$/m,
            `cluster { name: theirs, listen: "127.0.0.1:${places.ports.websocket}", routes: [${routes}] }`,
          ),
        { directory },
      );
    }),
  );
  const urlsOf = (port: "client" | "leaf"): string =>
    servers.map(({ child }) => `nats://127.0.0.1:${child.ports[port]}`).join(",");
  const cluster: ExternalCluster = {
    operator,
    servers,
    url: urlsOf("client"),
    leafUrl: urlsOf("leaf"),
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
      operator[Symbol.dispose]();
    },
  };
  try {
    await jetStreamLeads(cluster, size);
    return cluster;
  } catch (failure) {
    await cluster[Symbol.asyncDispose]();
    throw failure;
  }
}

/** Nothing tells of an election: whoever may not vote yet is asked again. */
async function jetStreamLeads({ operator, servers }: ExternalCluster, size: number): Promise<void> {
  const [first] = servers;
  if (first === undefined) throw new Error("no server");
  const system = await operator.connect(first, "system");
  for (;;) {
    const answers: unknown[] = [];
    const wait = { maxMessages: size, maxWait: 1_000 };
    const subject = "$SYS.REQ.SERVER.PING.JSZ";
    for await (const answer of await system.requestMany(subject, "", wait)) {
      answers.push(answer.json());
    }
    const led = answers.filter((answer) => jszAnswer.safeParse(answer).success);
    if (led.length === size) break;
  }
  await system.close();
}

const jszAnswer = z.object({
  data: z.object({ meta_cluster: z.object({ leader: z.string().min(1) }) }),
});

/** Signs with the key that the operator of `nats` hands to the controller. */
export function signerOf({ operatorKey, controllerAccount }: NatsOperator): AccountSigner {
  return openOperatorKey({ path: operatorKey, name: "--nats-operator-key" }, controllerAccount);
}
