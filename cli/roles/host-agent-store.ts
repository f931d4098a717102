/**
 * Owns where a host-agent keeps its job records: a nats-server of its own on loopback, whose two users prove
 * themselves by keys that live and die with this process.
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { createUser, type KeyPair } from "@nats-io/nkeys";
import type { NatsConnection } from "@nats-io/transport-node";
import { readSecureFile, writeSecureFile } from "../../host/secure-file.ts";
import type { ActorRef, ActorSystem } from "../../supervision/actor.ts";
import { openConnection } from "../../transport/connection.ts";
import { newSigningKey } from "../../transport/keys/signing-key.ts";
import {
  type NatsServerMessages,
  natsServerActor,
} from "../../transport/nats-server/child-actor.ts";
import { nodeConfig } from "../../transport/nats-server/config.ts";
import type { ServerAccount } from "../../transport/nats-server/lesser-account.ts";
import type { RoleContext } from "./context.ts";
import { unlessAsked } from "./foreground.ts";
import { natsServerBinary } from "./nats-binary.ts";

export interface HostAgentStore extends AsyncDisposable {
  readonly store: NatsConnection;
  /** Of the system account: it proves that what is written is synced. */
  readonly storeSystem: NatsConnection;
  readonly server: ActorRef<NatsServerMessages>;
  /** The folder of the receipts' own files. */
  readonly receipts: string;
  /** Of this life: higher than that of every one before. */
  readonly generation: number;
}

const CURRENT = { deadlineMs: 5_000 } as const;

/** Errors: those of the server's start and of the first connections. */
export async function openHostAgentStore(
  { folder, account }: { readonly folder: string; readonly account: ServerAccount | null },
  system: ActorSystem,
  { environment, say, asked }: RoleContext,
): Promise<HostAgentStore> {
  await using stack = new AsyncDisposableStack();
  const generation = await nextGeneration(join(folder, "generation"));
  const users = { store: newSigningKey(createUser), system: newSigningKey(createUser) };
  stack.defer(() => {
    for (const key of Object.values(users)) key.clear();
  });
  const binary = await natsServerBinary(environment, say);
  const spec = natsServerActor({
    binary,
    directory: join(folder, "server"),
    ...(account === null ? {} : { account }),
    config: (places) =>
      nodeConfig(
        {
          serverName: `host-agent-${randomBytes(8).toString("hex")}`,
          domain: "local",
          storeUser: users.store.getPublicKey(),
          sysUser: users.system.getPublicKey(),
        },
        places,
      ),
  });
  const server = await unlessAsked(asked, system, () => system.root.startActor(spec));
  const { clientUrl: url } = await server.ask("current", null, CURRENT);
  const open = async (name: string, key: KeyPair): Promise<NatsConnection> => {
    const connection = await openConnection({ url, name, as: { nkeySeed: key.getSeed() } });
    stack.defer(() => connection.close());
    return connection;
  };
  const storeSystem = await open("host-agent-system", users.system);
  const store = await open("host-agent-store", users.store);
  const owned = stack.move();
  return {
    store,
    storeSystem,
    server,
    receipts: join(folder, "receipts"),
    generation,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Counted on disk, so that no two lives are ever taken for one. */
async function nextGeneration(file: string): Promise<number> {
  const before = Number((await readSecureFile(file))?.toString("utf8") ?? 0);
  const generation = Number.isSafeInteger(before) ? before + 1 : Date.now();
  await writeSecureFile(file, `${generation}\n`);
  return generation;
}
