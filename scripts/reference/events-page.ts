/** Owns the page of the events: who hears them, what they carry. */
import { EVENT_SPECS, EVENTS, type EventSpec, TOPICS } from "../../protocol/events.ts";
import { jsonSchemaOf } from "../../protocol/json-schema.ts";
import { eventExample } from "./examples/frames.ts";
import { fieldTable } from "./fields.ts";
import { anchor, code, json, NOTICE, page, table } from "./markdown.ts";

export function eventsPage(): string {
  const named = (topics: readonly string[]): string =>
    topics.map((topic) => `\`${topic}\``).join(", ") || "private";
  const asked = ({ topics, scopes }: EventSpec): string => {
    if (topics.length === 0) return "";
    return scopes.map((scope) => `\`${scope}\``).join(" or ") || "none";
  };
  return page(
    "# Events",
    NOTICE,
    "What a connection of an operator or a device hears besides its answers, in the order in which it happened; a node's hears only what is private to it. `hello-ok` lists the names under `features.events`; how to choose among them stands in [backend-client.md](../backend-client.md#events), the methods for it in [methods.md](methods.md).",
    table(
      ["event", "topics", "scope", "when"],
      EVENTS.map((name) => {
        const spec = EVENT_SPECS[name];
        const { topics, summary } = spec;
        return [`[\`${name}\`](${anchor(name)})`, named(topics), asked(spec), summary];
      }),
    ),
    "## Topics",
    `${named(TOPICS)}, and for any run and session \`run:<id>\` and \`session:<key>\`. An event belongs to the topics of its name, and to those of the run (\`runId\`) and the session (\`sessionKey\`) that its payload names. A private event has no topic: it is told to the one connection that it concerns. A connection that never subscribed hears all that its scopes allow.`,
    "## The frame",
    table(
      ["field", "meaning"],
      [
        ["`type`", "`event`"],
        ["`event`", "the name"],
        ["`seq`", "counts from 1, without a gap, what this connection was told"],
        ["`payload?`", "as below; absent when there is none"],
        [
          "`stateVersion`",
          "`{presence, health, cron}`: how often each of them has changed since the control plane started, as this connection was last told; `{}` in a private event before any other",
        ],
      ],
    ),
    ...EVENTS.flatMap((name) => {
      const { summary, payload, topics } = EVENT_SPECS[name];
      return [
        `## ${name}`,
        `${summary} Topics: ${named(topics)}.`,
        fieldTable(jsonSchemaOf(payload, "output").schema) ?? "No payload.",
        code("json", json(eventExample(name))),
      ];
    }),
  );
}
