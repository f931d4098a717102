/** Owns the page that says of every method what it takes, answers and promises. */
import { POLICY } from "../../protocol/frames.ts";
import { type JsonSchema, jsonSchemaOf } from "../../protocol/json-schema.ts";
import type { MethodSpec } from "../../protocol/method.ts";
import { METHODS } from "../../protocol/methods.ts";
import { SCOPES_OF_ROLE } from "../../protocol/scopes.ts";
import { exampleOf } from "./examples.ts";
import { fieldTable, grouped } from "./fields.ts";
import { anchor, code, json, NOTICE, page, table } from "./markdown.ts";

/** Every method, by its name in the order of the alphabet. */
export const METHODS_BY_NAME: readonly MethodSpec[] = [...METHODS.values()].sort((a, b) =>
  a.name < b.name ? -1 : 1,
);

export function methodsPage(): string {
  const shapes = new Map<string, string>();
  const sections = METHODS_BY_NAME.map((spec) => methodSection(spec, shapes));
  return page(
    "# Methods",
    NOTICE,
    `Everything that a client can call on \`/ws\` after \`connect\`. How frames, handshake and errors read stands in [backend-client.md](../backend-client.md), the failures in [errors.md](errors.md), the events in [events.md](events.md); [asyncapi.json](asyncapi.json) says all of it for machines. A connection may call what its \`hello-ok\` lists under \`features.methods\`.`,
    [
      "- A field marked `?` may be absent; a parameter that is `null` counts as absent. A parameter that is not listed is ignored, unless the method says otherwise. A result may get more fields in a newer version.",
      "- **scope**: any one of those listed is enough. What a role holds:",
      ...Object.entries(SCOPES_OF_ROLE).map(
        ([role, scopes]) => `  - \`${role}\`: ${scopes.map((scope) => `\`${scope}\``).join(", ")}`,
      ),
      "- **repeat**: whether the very same call may be sent again after its answer was lost. Where it may not, the read that is named says what became of it; where no read tells, it says what to do.",
      "- **deadline**: how long the control plane waits for whoever does the work; after it the answer is `TIMEOUT`.",
      `- A request may have ${grouped(POLICY.maxPayload)} bytes (\`policy.maxPayload\`).`,
    ].join("\n"),
    table(
      ["method", "scope", "effect", "what it does"],
      METHODS_BY_NAME.map(({ name, summary, effect, ...needs }) => [
        `[\`${name}\`](${anchor(name)})`,
        needed(needs),
        effect,
        summary,
      ]),
    ),
    ...sections,
    ...[...shapes].flatMap(([name, section]) => [`## ${name}`, section]),
  );
}

function methodSection(spec: MethodSpec, shapes: Map<string, string>): string {
  const params = jsonSchemaOf(spec.params, "input").schema;
  const { schema: result, shapes: named } = jsonSchemaOf(spec.result, "output");
  for (const [name, shape] of Object.entries(named)) shapes.set(name, shapeSection(shape));
  const example = exampleOf(spec.name);
  const request = { type: "req", id: "7", method: spec.name, params: example.params };
  const answer = { type: "res", id: "7", ok: true, payload: example.result };
  return [
    `## ${spec.name}`,
    spec.summary,
    table(
      ["scope", "effect", "repeat", "deadline"],
      [[needed(spec), spec.effect, repeat(spec), deadline(spec, example.params)]],
    ),
    paramsText(spec, fieldTable(params)),
    `**Result**\n\n${fieldTable(result) ?? "None."}`,
    code("json", json(request)),
    code("json", json(answer)),
  ].join("\n\n");
}

/** What has a name of its own has a section of its own. */
function shapeSection(shape: JsonSchema): string {
  return [shape.description ?? "", fieldTable(shape) ?? ""].filter(Boolean).join("\n\n");
}

function paramsText(spec: MethodSpec, fields: string | null): string {
  if (fields === null) return "**Parameters**: none.";
  const exact = spec.unknownParams === "refused" ? " (exactly these; another is refused)" : "";
  return `**Parameters**${exact}\n\n${fields}`;
}

function needed({ scopes, role }: Pick<MethodSpec, "scopes" | "role">): string {
  const listed = scopes.map((scope) => `\`${scope}\``).join(" or ");
  if (role === undefined) return listed || "none";
  return [`role \`${role}\``, ...(listed === "" ? [] : [listed])].join(", ");
}

function repeat({ retrySafe, settledBy, unsettled, effect }: MethodSpec): string {
  if (retrySafe) return effect === "read" ? "yes" : "yes: it changes nothing more";
  if (settledBy === null) return `no, and no read tells: ${unsettled}`;
  return `no; [\`${settledBy.method}\`](${anchor(settledBy.method)}) tells`;
}

/** A deadline is a constant, or a constant beyond the parameters that name times themselves. */
function deadline(
  { name, deadlineMs }: MethodSpec,
  example: Readonly<Record<string, unknown>>,
): string {
  const used = new Set<string>();
  const none = new Proxy(example, {
    get: (_params, field) => {
      used.add(String(field));
      return 0;
    },
  });
  const beyondMs = deadlineMs(none);
  const named = [...used].reduce((total, field) => total + Number(example[field]), 0);
  if (deadlineMs(example) !== named + beyondMs)
    throw new Error(`the deadline of ${name} is none that this page can say`);
  return [...[...used].map((field) => `\`${field}\``), `${grouped(beyondMs)} ms`].join(" + ");
}
