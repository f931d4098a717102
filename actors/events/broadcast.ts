/**
 * Owns the telling of events to the connections of a control plane.
 *
 * 1. Events reach a connection in the order they were published, numbered without a gap; what it does not
 *    hear takes no number.
 * 2. A node's connection is told nothing here: it gets what is addressed to it, and that alone. Nor is one
 *    that may not read.
 * 3. An event is written once, however many hear it.
 */
import { LemonError } from "../../protocol/errors.ts";
import {
  type EventName,
  type EventPayload,
  eventText,
  type StateVersion,
  type Topic,
  topicsOf,
} from "../../protocol/events.ts";
import type { ConnectionId } from "../../protocol/ids.ts";
import type { Caller } from "../session/handler.ts";
import { Subscription } from "./subscription.ts";

interface Listener {
  readonly subscription: Subscription;
  readonly send: (text: string) => void;
}

export class Broadcast {
  readonly #listeners = new Map<ConnectionId, Listener>();
  #stateVersion: StateVersion = { presence: 0, health: 0, cron: 0 };

  /** From now on the connection is told what it hears; `send` takes a frame and never throws. */
  join({ connectionId, role, scopes }: Caller, send: (text: string) => void): void {
    if (role === "node" || !scopes.some((scope) => scope === "read" || scope === "control")) return;
    this.#listeners.set(connectionId, { subscription: new Subscription(), send });
  }

  leave(connectionId: ConnectionId): void {
    this.#listeners.delete(connectionId);
  }

  /** Errors: `forbidden` for a connection that is told nothing. */
  subscriptionOf(connectionId: ConnectionId): Subscription {
    const listener = this.#listeners.get(connectionId);
    if (listener === undefined) throw new LemonError("forbidden");
    return listener.subscription;
  }

  /** `also`: a topic that hears it besides those it belongs to by itself. */
  publish(event: EventName, payload: EventPayload | null, also: readonly Topic[] = []): void {
    if (event === "presence" || event === "health") this.#count(event);
    const topics = [...topicsOf(event, payload), ...also];
    const text = eventText(event, payload, this.#stateVersion);
    for (const { subscription, send } of this.#listeners.values()) {
      if (subscription.hears(topics)) send(text(subscription.next()));
    }
  }

  #count(state: "presence" | "health"): void {
    this.#stateVersion = { ...this.#stateVersion, [state]: this.#stateVersion[state] + 1 };
  }
}
