/**
 * Owns the telling of events to the connections of a control plane.
 *
 * 1. Events reach a connection in the order they were told, numbered without a gap; what it does not hear
 *    takes no number.
 * 2. What is published is told to no node's connection, and to none that has no right to it. What is told to
 *    one connection reaches that one alone, whatever else it hears.
 * 3. An event is written once, however many hear it.
 */
import { LemonError } from "../../protocol/errors.ts";
import {
  EVENT_SPECS,
  type EventName,
  eventText,
  type PayloadOf,
  type PrivateEventName,
  type StateVersion,
  type Topic,
  topicsOf,
} from "../../protocol/events.ts";
import type { ConnectionId } from "../../protocol/ids.ts";
import type { Scope } from "../../protocol/scopes.ts";
import type { Connection } from "../session/connection.ts";
import type { Caller } from "../session/handler.ts";
import { Subscription } from "./subscription.ts";

/** Where a connection's events go: frames, of which none ever throws. */
type Line = Pick<Connection, "event" | "answer">;

interface Listener {
  readonly scopes: readonly Scope[];
  readonly subscription: Subscription;
  readonly line: Line;
  /** As of the last published event that it heard; nothing before the first (control-plane-wire.md 1.6). */
  stateVersion: StateVersion | null;
}

export class Broadcast {
  readonly #listeners = new Map<ConnectionId, Listener>();
  /** Those that hear nothing but what is told to them. */
  readonly #deaf = new Map<ConnectionId, Listener>();
  #stateVersion: StateVersion = { presence: 0, health: 0, cron: 0 };

  /** From now on the connection is told what it hears. */
  join({ connectionId, role, scopes }: Caller, line: Line): void {
    const listeners = role === "node" ? this.#deaf : this.#listeners;
    const subscription = new Subscription();
    listeners.set(connectionId, { scopes, subscription, line, stateVersion: null });
  }

  leave(connectionId: ConnectionId): void {
    this.#listeners.delete(connectionId);
    this.#deaf.delete(connectionId);
  }

  /** Errors: `forbidden` for a connection that hears nothing. */
  subscriptionOf(connectionId: ConnectionId): Subscription {
    const listener = this.#listeners.get(connectionId);
    if (listener === undefined) throw new LemonError("forbidden");
    return listener.subscription;
  }

  /** `also`: topics that hear it besides those it belongs to by itself. */
  publish<E extends EventName>(event: E, payload: PayloadOf<E>, also: readonly Topic[] = []): void {
    if (event === "presence" || event === "health") this.#count(event);
    const topics = [...topicsOf(event, payload), ...also];
    const text = eventText(event, payload, this.#stateVersion);
    const rights = EVENT_SPECS[event].scopes;
    for (const listener of this.#listeners.values()) {
      const { scopes, subscription, line } = listener;
      const may = rights.length === 0 || rights.some((right) => scopes.includes(right));
      if (!may || !subscription.hears(topics)) continue;
      listener.stateVersion = this.#stateVersion;
      line.event(text(subscription.next()));
    }
  }

  /**
   * To one connection alone; false when it is gone. It waits for a reader that is behind, as an answer does:
   * the other side asked for it.
   */
  tell<E extends PrivateEventName>(
    connectionId: ConnectionId,
    event: E,
    payload: PayloadOf<E>,
  ): boolean {
    const listener = this.#listeners.get(connectionId) ?? this.#deaf.get(connectionId);
    if (listener === undefined) return false;
    const { subscription, line, stateVersion } = listener;
    line.answer(eventText(event, payload, stateVersion)(subscription.next()));
    return true;
  }

  #count(state: "presence" | "health"): void {
    this.#stateVersion = { ...this.#stateVersion, [state]: this.#stateVersion[state] + 1 };
  }
}
