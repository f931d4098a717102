/**
 * Owns what is told without anybody asking: that time goes on (`tick`), and who is connected (`presence`).
 *
 * Many who come at once are told as one change: with ten thousand connections each of which hears of every
 * other, one at a time would be a hundred million frames.
 */
import type { ActorContext, ActorSpec, Behaviour, Death } from "../../supervision/actor.ts";
import type { Presence, Roster } from "../session/roster.ts";
import type { Broadcast } from "./broadcast.ts";

export type AnnouncerProtocol = {
  /** Somebody came or went. */
  rosterChanged: (nothing: null) => void;
};

/** Remembers that the announcer was told: however many come and go meanwhile, one message waits for it. */
export class News {
  isTold = false;
}

export interface AnnouncerOptions {
  readonly broadcast: Broadcast;
  readonly roster: Roster;
  readonly news: News;
  readonly tickIntervalMs: number;
}

/** Rows of one `presence` event. */
export const PRESENCE_ROWS = 200;
/** How long a change waits for others, in ms: this, and one more for each connection that hears of it. */
const PRESENCE_AFTER_MS = 50;

export function announcerSpec(options: AnnouncerOptions): ActorSpec<AnnouncerProtocol> {
  return {
    id: "announcer",
    kind: "announcer",
    restart: "permanent",
    start: (context) => new Announcer(options, context),
  };
}

class Announcer implements Behaviour<AnnouncerProtocol> {
  readonly handlers = { rosterChanged: () => this.#changed() };
  readonly #options: AnnouncerOptions;
  readonly #context: ActorContext<AnnouncerProtocol>;
  #cancelTick = (): void => {};
  #cancelPresence: (() => void) | null = null;

  constructor(options: AnnouncerOptions, context: ActorContext<AnnouncerProtocol>) {
    this.#options = options;
    this.#context = context;
    this.#tickLater();
    // What its predecessor was told and did not live to do.
    if (options.news.isTold) this.#changed();
  }

  stop(_reason: Death["reason"]): void {
    this.#cancelTick();
    this.#cancelPresence?.();
  }

  #tickLater(): void {
    const { clock } = this.#context;
    const { broadcast, tickIntervalMs } = this.#options;
    this.#cancelTick = clock.after(tickIntervalMs, () => {
      broadcast.publish("tick", { timestampMs: clock.nowMs() });
      this.#tickLater();
    });
  }

  #changed(): void {
    this.#options.news.isTold = false;
    if (this.#cancelPresence !== null) return;
    const { broadcast, roster } = this.#options;
    const afterMs = PRESENCE_AFTER_MS + roster.counts().active;
    this.#cancelPresence = this.#context.clock.after(afterMs, () => {
      this.#cancelPresence = null;
      broadcast.publish("presence", presenceOf(roster.presence(PRESENCE_ROWS)));
    });
  }
}

/** As the wire has it. */
export function presenceOf({ connections, count }: Presence) {
  return {
    connections: connections.map(({ connectionId, role, clientId, connectedAtMs }) => ({
      conn_id: connectionId,
      role,
      client_id: clientId,
      connected_at: connectedAtMs,
    })),
    count,
  };
}
