/**
 * Owns the vaults of one process: the controller's, its local node's, or a worker's. They are under one master
 * key, this machine's, and go from one to the next together.
 */
import { randomBytes } from "node:crypto";
import type { NatsConnection } from "@nats-io/transport-node";
import { startVault } from "../../actors/vault/actor.ts";
import { type Rotation, VAULT_DEADLINE, type Vault } from "../../actors/vault/asking.ts";
import { keyIdOf } from "../../actors/vault/crypto.ts";
import { Followers } from "../../host/master-key/followers.ts";
import { machineKeys } from "../../host/master-key/from-machine.ts";
import type { MasterKeys } from "../../host/master-key/master-keys.ts";
import { LemonError } from "../../protocol/errors.ts";
import { Secret } from "../../protocol/secret.ts";
import type { SupervisorRef } from "../../supervision/actor.ts";
import { openRecordStore } from "../../transport/records/open.ts";
import type { RoleContext } from "./context.ts";

/** Where the records of one vault lie. */
export interface VaultPlace {
  /** Whose operation ids these are: the durable id of a node, or the controller. */
  readonly scope: string;
  readonly connection: NatsConnection;
  /** Of the system account of the same server; without one nothing can be proven, and nothing is written. */
  readonly system: NatsConnection | null;
  /** The vault's own files lie below it. */
  readonly directory: string;
  readonly replicas?: number;
  readonly restartServer?: (serverId: string) => Promise<unknown>;
}

/** The vaults of other processes are told at once, and mostly done by then. */
const FOLLOWED_MS = 3_000;
const MASTER_KEY_BYTES = 32;
const BUCKET = "lemon-vault";

export class Vaults {
  readonly #keys: MasterKeys;
  readonly #context: Pick<RoleContext, "clock" | "log">;
  readonly #vaults: Vault[] = [];
  readonly #followers: Followers;

  /** `home` is `LEMON_HOME`. */
  constructor(home: string, { clock, log, environment }: RoleContext) {
    this.#keys = machineKeys({ home, environment, clock });
    this.#context = { clock, log };
    this.#followers = new Followers(home, clock);
  }

  /** Starts a vault below `parent`; its store is opened when it is first asked for. */
  async start(parent: SupervisorRef, place: VaultPlace): Promise<Vault> {
    const { clock, log } = this.#context;
    const { scope, connection, system: sys, directory, replicas, restartServer } = place;
    const vault = await startVault(parent, {
      keys: this.#keys,
      scope,
      followers: this.#followers,
      clock,
      openStore: (sink) =>
        openRecordStore({
          bucket: BUCKET,
          connection,
          sys,
          directory,
          clock,
          log,
          sink,
          ...(replicas === undefined ? {} : { replicas }),
          ...(restartServer === undefined ? {} : { restartServer }),
        }),
    });
    this.#vaults.push(vault);
    return vault;
  }

  /**
   * Makes a new master key for this machine, and puts every secret of this process under it. Resolves with their
   * number, and with the vaults of other processes that have not followed by then: they do by themselves. To do it
   * again is as good as once. Errors: those of a vault's `rotate`.
   */
  async rotate(): Promise<Rotation> {
    using newKey = Secret.take(randomBytes(MASTER_KEY_BYTES));
    // All are asked before one of them can be told of the change: each counts what it did itself. And none of them
    // uses the key any more once it is destroyed here.
    const asked = this.#vaults.map((vault) => vault.ask("rotate", { newKey }, VAULT_DEADLINE));
    let count = 0;
    for (const answer of await Promise.allSettled(asked)) {
      if (answer.status === "rejected") again(answer.reason);
      else count += answer.value.count;
    }
    return { count, behind: await this.#followers.behind(keyIdOf(newKey), FOLLOWED_MS) };
  }
}

/** What a vault was doing when it fell silent it goes on with by itself, and another rotation is no harm. */
function again(error: unknown): never {
  if (!(error instanceof LemonError) || !error.mutationMayHaveApplied) throw error;
  const { code, wire } = error;
  throw new LemonError(code, {
    message: "The rotation is not known to be complete; rotate again",
    wire,
    retrySafe: true,
    mutationMayHaveApplied: true,
    cause: error,
  });
}
