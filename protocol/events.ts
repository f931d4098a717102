/**
 * Owns the events of `/ws`: their names, who hears which, how they read on the wire
 * (control-plane-wire.md 1.6 and 3.10).
 */

/** What this build sends; `hello-ok.features.events`, in the order that clients know. */
export const EVENTS = [
  "presence",
  "tick",
  "shutdown",
  "health",
  "heartbeat",
  "metrics",
  "log",
  "node.pair.requested",
  "node.pair.resolved",
  "node.invoke.request",
  "node.invoke.completed",
  "node.invoke.cancel",
  "custom",
] as const;

/** What is only ever told to the one connection it concerns (control-plane-wire.md 3.2, rulings). */
export const PRIVATE_EVENTS = [
  "node.invoke.request",
  "node.invoke.completed",
  "node.invoke.cancel",
] as const;
export type PrivateEventName = (typeof PRIVATE_EVENTS)[number];
/** What is told to all who hear its topics. */
export type EventName = Exclude<(typeof EVENTS)[number], PrivateEventName>;

/** Topics that can be named as they are; besides there are `run:<id>` and `session:<key>`. */
export const TOPICS = [
  "all",
  "system",
  "cron",
  "nodes",
  "presence",
  "exec_approvals",
  "channels",
  "goals",
] as const;
export type Topic = (typeof TOPICS)[number] | `run:${string}` | `session:${string}`;

/** Longest topic, in UTF-16 units: the longest session key, and some. */
const TOPIC_MAX_LENGTH = 1_024;

export function isTopic(text: string): text is Topic {
  if ((TOPICS as readonly string[]).includes(text)) return true;
  return text.length <= TOPIC_MAX_LENGTH && /^(run|session):./su.test(text);
}

const TOPICS_OF_EVENT: Readonly<Record<EventName, readonly Topic[]>> = {
  presence: ["presence"],
  tick: ["cron", "system"],
  shutdown: ["system"],
  health: ["system"],
  heartbeat: ["system"],
  metrics: ["system"],
  log: ["system"],
  "node.pair.requested": ["nodes"],
  "node.pair.resolved": ["nodes"],
  custom: ["system"],
};

export type EventPayload = Readonly<Record<string, unknown>>;

/** The topics that an event belongs to: its name's, and those of the run and the session it names. */
export function topicsOf(event: EventName, payload: EventPayload | null): readonly Topic[] {
  const topics = [...TOPICS_OF_EVENT[event]];
  for (const [kind, names] of [
    ["run", ["runId", "run_id"]],
    ["session", ["sessionKey", "session_key"]],
  ] as const) {
    for (const name of names) {
      const id = payload?.[name];
      if (typeof id === "string" && id !== "") topics.push(`${kind}:${id}`);
    }
  }
  return topics;
}

/** How often what they count has changed; a client that saw a higher number knows that it missed nothing. */
export interface StateVersion {
  readonly presence: number;
  readonly health: number;
  readonly cron: number;
}

/** The text of an event's frame, but for the number that differs from one connection to the next. */
export function eventText(
  event: EventName | PrivateEventName,
  payload: EventPayload | null,
  stateVersion: StateVersion,
): (seq: number) => string {
  const head = `{"type":"event","event":${JSON.stringify(event)},"seq":`;
  const body = payload === null ? "" : `,"payload":${JSON.stringify(payload)}`;
  const tail = `${body},"stateVersion":${JSON.stringify(stateVersion)}}`;
  return (seq) => `${head}${seq}${tail}`;
}
