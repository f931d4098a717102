/**
 * Owns the knowledge of who is connected to the accounts of nodes, and the suspicion that follows from
 * it. Fed by the hub's advisories and, after a start or a gap, by a list of what is connected.
 *
 * 1. A connection is told of at most once each way; after a gap the difference is told.
 * 2. A leaf's credentials belong to one server, which has one link. Two live server names under one user
 *    key, two links that stand side by side on one server of the hub for longer than it takes to drop the
 *    older, or links that displace each other there again and again, mean that somebody else holds them
 *    too. On another server of a cluster the older one may be a line that broke unnoticed, for as long as
 *    it takes such a server to notice.
 * 3. A link that renews its credentials is not told as lost while it is away for the moment that takes. One
 *    that came with that very renewal is: what it carried is gone.
 */
import type { CancelTimer, Clock } from "../../host/clock.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import type { SystemConnection } from "./system-api.ts";

/** How long a renewing link may be away before it counts as lost, in ms. */
const RENEWAL_GRACE_MS = 3_000;
/** Ends that no renewal explains (nats-server, server/client.go, ClosedState). */
const CUT_BY_THE_HUB = /revoked|expired|authentication/i;
/** A leaf that comes back before its dead link was noticed displaces it at once (1 ms was measured). */
const SIDE_BY_SIDE_MS = 1_000;
/**
 * How long a broken line may seem to stand at a server that is not ours: NATS by itself gives one up when
 * two PINGs, two minutes apart, were not answered.
 */
const UNNOTICED_MS = 10 * 60_000;
/**
 * A worker's own leaf takes over from itself when a cut left a dead connection on the hub's side: once,
 * then the dead one is gone. Two holders of one key displace each other at every reconnect (0.5 s).
 */
const TAKEOVERS = 5;
const TAKEOVER_WINDOW_MS = 20_000;

export interface LinkConnection extends SystemConnection {
  readonly account: NodeKey;
}

export type LinkEvent =
  | {
      readonly type: "connected";
      readonly connection: LinkConnection;
      /**
       * Whether the same leaf had a link already: it has one at a time, so that one is dead, whenever the
       * hub may notice, and what was under way on it is lost.
       */
      readonly displaces: boolean;
    }
  | {
      readonly type: "disconnected";
      readonly connection: LinkConnection;
      /** Connections that the same user key still has. */
      readonly remaining: number;
      /** The hub's words, for example `Credentials Revoked`; empty when it was missed. */
      readonly reason: string;
    }
  | { readonly type: "shared"; readonly account: NodeKey; readonly userKey: string };

export interface LinkWatchOptions {
  readonly clock: Clock;
  /** Whether an account is a node's; connections of others are nobody's business here. */
  readonly isNode: (account: string) => account is NodeKey;
  /** Whether its links are leafs, whose credentials lie on a disk elsewhere. */
  readonly isLeaf: (account: NodeKey) => boolean;
  /** Names the renewal of its link that this node said it is about to make, or has made a moment ago. */
  readonly renewal: (account: NodeKey) => number | null;
  readonly emit: (event: LinkEvent) => void;
  /**
   * Has `reconcile` run before two links side by side are suspected: a server of a cluster that died has
   * told nobody that its links died with it. Default: the advisories are all there is.
   */
  readonly refresh?: () => Promise<void>;
}

interface Seen extends LinkConnection {
  /** With which it came. */
  readonly renewal: number | null;
}

export class LinkWatch {
  readonly #options: LinkWatchOptions;
  readonly #live = new Map<string, Seen>();
  /** Losses not told yet, by connection. */
  readonly #withheld = new Map<string, { connection: LinkConnection; cancel: CancelTimer }>();
  readonly #takeovers = new Map<string, number[]>();
  readonly #shared = new Set<string>();
  /** Pending looks at whether two links still stand side by side, by the newer one. */
  readonly #sideBySide = new Map<string, CancelTimer>();
  /** What ended while a list was on its way: the list may still name it. */
  #endedMeanwhile: Set<string> | null = null;
  #stopped = false;

  constructor(options: LinkWatchOptions) {
    this.#options = options;
  }

  connections(account: NodeKey): LinkConnection[] {
    return [...this.#live.values()].filter((connection) => connection.account === account);
  }

  connected(seen: SystemConnection): void {
    const { account, userKey, id } = seen;
    if (!this.#options.isNode(account) || this.#live.has(id)) return;
    const connection: Seen = { ...seen, account, renewal: this.#options.renewal(account) };
    const others = this.#options.isLeaf(account) ? this.#of(userKey) : [];
    this.#live.set(id, connection);
    this.#settleWithheld(userKey);
    // A renewal's old link has carried all it was given before the new one comes.
    const displaces = others.some(
      (other) => other.name === connection.name && !this.#isRenewedAway(other),
    );
    this.#options.emit({ type: "connected", connection, displaces });
    if (others.length === 0) return;
    const stranger = others.some(({ name }) => name !== connection.name);
    if (stranger || (this.#isBeside(connection) && this.#displacesOften(userKey))) {
      this.#tellShared(connection);
    } else {
      this.#lookAgain(connection, SIDE_BY_SIDE_MS, "here");
    }
  }

  disconnected(seen: SystemConnection, reason: string): void {
    this.#endedMeanwhile?.add(seen.id);
    const connection = this.#live.get(seen.id);
    if (connection === undefined) return;
    this.#live.delete(seen.id);
    this.#sideBySide.get(seen.id)?.();
    this.#sideBySide.delete(seen.id);
    const alone = this.#of(connection.userKey).length === 0;
    if (!alone || CUT_BY_THE_HUB.test(reason) || !this.#isRenewedAway(connection)) {
      this.#tellLoss(connection, reason);
      return;
    }
    const cancel = this.#options.clock.after(RENEWAL_GRACE_MS, () => {
      this.#withheld.delete(connection.id);
      this.#tellLoss(connection, reason);
    });
    this.#withheld.set(connection.id, { connection, cancel });
  }

  /** Takes the list that `list` fetches for the truth; advisories may come in while it is fetched. */
  async reconcile(list: () => Promise<readonly SystemConnection[]>): Promise<void> {
    const ended = new Set<string>();
    this.#endedMeanwhile = ended;
    const before = new Set(this.#live.keys());
    try {
      const now = (await list()).filter(({ id }) => !ended.has(id));
      const present = new Set(now.map(({ id }) => id));
      for (const id of before) {
        const gone = present.has(id) ? undefined : this.#live.get(id);
        if (gone !== undefined) this.disconnected(gone, "");
      }
      for (const connection of now) this.connected(connection);
    } finally {
      this.#endedMeanwhile = null;
    }
  }

  stop(): void {
    this.#stopped = true;
    for (const { cancel } of this.#withheld.values()) cancel();
    this.#withheld.clear();
    for (const cancel of this.#sideBySide.values()) cancel();
    this.#sideBySide.clear();
  }

  /** Whether a renewal that is not its own explains its end. */
  #isRenewedAway({ account, renewal }: Seen): boolean {
    const now = this.#options.renewal(account);
    return now !== null && now !== renewal;
  }

  #tellLoss(connection: LinkConnection, reason: string): void {
    const remaining = this.#of(connection.userKey).length;
    if (remaining === 0) this.#pruneTakeovers();
    this.#options.emit({ type: "disconnected", connection, remaining, reason });
  }

  /** The link is back: its loss is nobody's business any more. */
  #settleWithheld(userKey: string): void {
    for (const [id, { connection, cancel }] of this.#withheld) {
      if (connection.userKey !== userKey) continue;
      cancel();
      this.#withheld.delete(id);
    }
  }

  /** Whether another link of the same key stands on the same server. */
  #isBeside({ id, userKey }: LinkConnection): boolean {
    const server = serverOf(id);
    return this.#of(userKey).some((other) => other.id !== id && serverOf(other.id) === server);
  }

  #lookAgain(connection: LinkConnection, afterMs: number, where: "here" | "anywhere"): void {
    const { id } = connection;
    const cancel = this.#options.clock.after(afterMs, () => {
      this.#sideBySide.delete(id);
      void this.#suspect(connection, where);
    });
    this.#sideBySide.set(id, cancel);
  }

  /** Whether another link still stands beside it at its own server, or at any: then they are shared. */
  async #suspect(connection: LinkConnection, where: "here" | "anywhere"): Promise<void> {
    const stillTwo = (): boolean =>
      !this.#stopped && this.#live.has(connection.id) && this.#of(connection.userKey).length > 1;
    if (!stillTwo()) return;
    try {
      await this.#options.refresh?.();
    } catch {
      // Nobody knows now: neither of them is accused, nor forgotten.
      if (stillTwo()) this.#lookAgain(connection, SIDE_BY_SIDE_MS, where);
      return;
    }
    if (!stillTwo()) return;
    if (where === "anywhere" || this.#isBeside(connection)) this.#tellShared(connection);
    else this.#lookAgain(connection, UNNOTICED_MS, "anywhere");
  }

  /** Once for a key: it is revoked for good. */
  #tellShared({ account, userKey }: LinkConnection): void {
    if (this.#shared.has(userKey)) return;
    this.#shared.add(userKey);
    this.#options.emit({ type: "shared", account, userKey });
  }

  #displacesOften(userKey: string): boolean {
    const nowMs = this.#options.clock.monotonicMs();
    const recent = (this.#takeovers.get(userKey) ?? []).filter(
      (atMs) => nowMs - atMs < TAKEOVER_WINDOW_MS,
    );
    recent.push(nowMs);
    this.#takeovers.set(userKey, recent);
    return recent.length >= TAKEOVERS;
  }

  #pruneTakeovers(): void {
    const nowMs = this.#options.clock.monotonicMs();
    for (const [userKey, times] of this.#takeovers) {
      if (times.every((atMs) => nowMs - atMs >= TAKEOVER_WINDOW_MS))
        this.#takeovers.delete(userKey);
    }
  }

  #of(userKey: string): Seen[] {
    return [...this.#live.values()].filter((connection) => connection.userKey === userKey);
  }
}

/** A connection's id begins with its server's (`SystemConnection.id`). */
function serverOf(id: string): string {
  return id.slice(0, id.indexOf(":"));
}
