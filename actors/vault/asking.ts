/** Owns how the methods of this room ask a vault. */
import type { ActorRef } from "../../supervision/actor.ts";
import type { VaultMessages } from "./messages.ts";

export type Vault = Pick<ActorRef<VaultMessages>, "ask">;

/** Below a method's 30 s, so that a vault which is slow is told of as what it is. */
export const VAULT_DEADLINE = { deadlineMs: 25_000 } as const;

/** What became of a rotation. */
export interface Rotation {
  /** Secrets of this process that were put under the new key. */
  readonly count: number;
  /** The vaults of other processes that are not under it yet: a node's id, or `controller`. */
  readonly behind: string[];
}

/** Who put a secret there that came by a method. */
export const SET_BY_HAND = "manual";
