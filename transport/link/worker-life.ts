/**
 * Owns the keys of one worker life. They are made when it starts and die with it; only the link's seed
 * ever touches a disk, in the credentials file that the leaf reads.
 *
 * A life is told apart from every other by its link key and its leaf's server name: neither is ever
 * used again.
 */
import { randomBytes } from "node:crypto";
import { createCurve, createUser, type KeyPair } from "@nats-io/nkeys";
import { newSigningKey } from "../keys/signing-key.ts";

export interface WorkerLife {
  /** Name of the life's nats-server, on the hub and in its log. */
  readonly serverName: string;
  /** Proves the life to the hub; the controller signs a short-lived JWT for its public key. */
  readonly link: KeyPair;
  /** X25519: what is sealed to it can be opened in this process alone. */
  readonly seal: KeyPair;
  /** The users of the life's own server: its LINK, STORE and SYS accounts. */
  readonly worker: KeyPair;
  readonly store: KeyPair;
  readonly system: KeyPair;
  /** Overwrites the seeds; the life can prove nothing afterwards. */
  end(): void;
}

export function createWorkerLife(): WorkerLife {
  const pairs = {
    link: newSigningKey(createUser),
    seal: createCurve(),
    worker: newSigningKey(createUser),
    store: newSigningKey(createUser),
    system: newSigningKey(createUser),
  };
  return {
    serverName: `n-${randomBytes(12).toString("hex")}`,
    ...pairs,
    end() {
      for (const pair of Object.values(pairs)) pair.clear();
    },
  };
}
