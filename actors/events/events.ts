/** Owns the putting together of events: who is connected, what they are told, the actor that announces. */
import type { Clock } from "../../host/clock.ts";
import { POLICY, type Policy } from "../../protocol/frames.ts";
import type { ActorRef, SupervisorRef } from "../../supervision/actor.ts";
import type { MethodHandlers } from "../session/handler.ts";
import { Roster } from "../session/roster.ts";
import { type AnnouncerProtocol, announcerSpec, News } from "./announcer.ts";
import { Broadcast } from "./broadcast.ts";
import { type EventMethod, eventMethods } from "./methods.ts";

export interface EventsOptions {
  /** Where the announcer is started. */
  readonly parent: SupervisorRef;
  readonly clock: Clock;
  readonly policy?: Policy;
}

export interface Events {
  readonly broadcast: Broadcast;
  readonly roster: Roster;
  readonly methods: MethodHandlers<EventMethod>;
}

export async function openEvents({
  parent,
  clock,
  policy = POLICY,
}: EventsOptions): Promise<Events> {
  let announcer: ActorRef<AnnouncerProtocol> | null = null;
  const broadcast = new Broadcast();
  const news = new News();
  const roster = new Roster(() => {
    if (news.isTold) return;
    news.isTold = true;
    try {
      announcer?.tell("rosterChanged", null);
    } catch {
      // It is down: its next life reads the news, and at the end nobody does.
    }
  });
  const { tickIntervalMs } = policy;
  announcer = await parent.startActor(announcerSpec({ broadcast, roster, news, tickIntervalMs }));
  return { broadcast, roster, methods: eventMethods({ broadcast, roster, clock }) };
}
