/** Owns the words between a supervisor and its children: an actor and a supervisor alike are a `Child`. */
import type { Logger } from "pino";
import type { Clock } from "../host/clock.ts";
import type { Death, Restart, TreeNode } from "./actor.ts";
import type { Nursery } from "./comedy-host.ts";

/** What every part of one system shares. */
export interface Kernel {
  readonly clock: Clock;
  /** Numbers from 0 up to, not including, 1. */
  readonly random: () => number;
  readonly log: Logger;
}

/** How a start came out. `error` is what the start threw, or `actor_unavailable` when it was ended meanwhile. */
export type Started = { readonly up: true } | { readonly up: false; readonly error: unknown };

export interface RestartCount {
  readonly inWindow: number;
  readonly left: number | null;
}

/** A place under a supervisor, with at most one life at a time. */
export interface Child {
  readonly id: string;
  readonly path: string;
  readonly restart: Restart;
  /** Grows in the order in which the children were added. */
  readonly order: number;
  /** True while it has a life: starting, running or stopping. */
  readonly alive: boolean;
  /** False until its first life is up: until then its owner waits, and a failure is the owner's to hear. */
  readonly born: boolean;
  /** True once it will never live again. */
  readonly discarded: boolean;
  /** Begins a life; there must be none. Resolves when it is up or has ended. Never rejects. */
  begin(): Promise<Started>;
  /** Ends the life, if there is one, in order; resolves when none is left. Never rejects. */
  halt(): Promise<void>;
  /** Ends the life now: what still runs in it is abandoned. */
  kill(): void;
  /** Never to live again, nor any below it; a life it still has is to be ended by `halt`. */
  discard(): void;
  describe(restarts: RestartCount): TreeNode;
}

/** What a child has of its supervisor. */
export interface Parent {
  readonly path: string;
  readonly kernel: Kernel;
  /** Where the lives of the children take place, for as long as this life of the supervisor lasts. */
  readonly nursery: Nursery;
  /** Called once for each life that ended. */
  childEnded(child: Child, end: LifeEnd): void;
  /** Ends the child and takes it from the tree; resolves when that is done. Never rejects. */
  retire(child: Child): Promise<void>;
}

export interface LifeEnd {
  readonly death: Death;
  /** How long the life was up; 0 when it never was. */
  readonly uptimeMs: number;
  /** True when it was asked for, by the supervisor or by whoever stopped the child: no restart follows from it. */
  readonly ordered: boolean;
}
