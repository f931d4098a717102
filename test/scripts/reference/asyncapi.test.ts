import { expect } from "chai";
import { z } from "zod";
import { EVENT_SPECS, EVENTS } from "../../../protocol/events.ts";
import { METHODS } from "../../../protocol/methods.ts";
import { asyncApi } from "../../../scripts/reference/asyncapi.ts";
import { connectFrame, errorFrame, helloFrame } from "../../../scripts/reference/frames.ts";
import { OPERATOR_TOKEN, testGateway } from "../../support/gateway.ts";
import { WsClient } from "../../support/ws-client.ts";

const reference = z.strictObject({ $ref: z.string() });
const message = z.strictObject({
  name: z.string(),
  summary: z.string(),
  payload: z.looseObject({}),
  correlationId: z.strictObject({ location: z.literal("$message.payload#/id") }).optional(),
  examples: z.array(z.strictObject({ payload: z.unknown() })).min(1),
});
const operation = z.looseObject({
  action: z.enum(["send", "receive"]),
  channel: reference,
  summary: z.string(),
  messages: z.array(reference).length(1),
  reply: z.strictObject({ channel: reference, messages: z.array(reference).min(1) }).optional(),
});
/** The part of AsyncAPI 3.0 that the document uses; a member outside it does not pass. */
const document = z.strictObject({
  asyncapi: z.literal("3.0.0"),
  info: z.strictObject({
    title: z.string(),
    version: z.string(),
    description: z.string(),
    license: z.strictObject({ name: z.string(), url: z.url() }),
  }),
  defaultContentType: z.literal("application/json"),
  servers: z.record(
    z.string(),
    z.strictObject({
      host: z.string(),
      protocol: z.enum(["ws", "wss"]),
      description: z.string(),
      variables: z
        .record(
          z.string(),
          z.strictObject({ description: z.string(), examples: z.array(z.string()) }),
        )
        .optional(),
    }),
  ),
  channels: z.strictObject({
    ws: z.strictObject({
      address: z.literal("/ws"),
      description: z.string(),
      messages: z.record(z.string(), reference),
      bindings: z.strictObject({
        ws: z.strictObject({ method: z.literal("GET"), bindingVersion: z.literal("0.1.0") }),
      }),
    }),
  }),
  operations: z.record(z.string().regex(/^[\w.-]+$/), operation),
  components: z.strictObject({
    messages: z.record(z.string().regex(/^[\w.-]+$/), message),
    schemas: z.record(z.string().regex(/^[\w.-]+$/), z.looseObject({})),
  }),
});

describe("the AsyncAPI document", () => {
  const raw = asyncApi();
  const { channels, components, operations } = document.parse(raw);

  it("points nowhere but to what it holds", () => {
    const lost = referencesIn(raw).filter((target) => at(raw, target) === undefined);
    expect(lost).to.deep.equal([]);
    expect(referencesIn(raw)).to.not.be.empty;
  });

  it("has an operation for the handshake, each method and each event, and no other", () => {
    const expected = ["connect", ...METHODS.keys(), ...EVENTS.map((name) => `event.${name}`)];
    expect(Object.keys(operations).sort()).to.deep.equal(expected.sort());
  });

  it("has every message on the channel, and uses each", () => {
    const names = Object.keys(components.messages).sort();
    expect(Object.keys(channels.ws.messages).sort()).to.deep.equal(names);
    const used = Object.values(operations).flatMap(({ messages, reply }) => [
      ...messages,
      ...(reply?.messages ?? []),
    ]);
    const usedNames = new Set(used.map(({ $ref }) => $ref.replace("#/channels/ws/messages/", "")));
    expect([...usedNames].sort()).to.deep.equal(names);
  });

  for (const [name, { payload, examples }] of Object.entries(components.messages)) {
    it(`has a schema of ${name} that takes its example, and no frame of another type`, () => {
      const schema = compiled(payload, components.schemas);
      for (const example of examples) {
        expect(schema.safeParse(example.payload).error).to.equal(undefined);
        expect(schema.safeParse({ ...Object(example.payload), type: "other" }).success).to.equal(
          false,
        );
      }
    });
  }

  it("tells what real events carry, to the last member", async () => {
    const gateway = await testGateway({ announces: true });
    try {
      const client = await WsClient.connect(gateway.url);
      const targets = ["system", "run:r-1", "session:s-1", "nodes"];
      const types = ["heartbeat", "metrics", "log", "custom_x"];
      for (const [index, eventType] of types.entries()) {
        const payload = { agentId: "a", level: "warn", response: { text: "x" }, n: index };
        client.send({
          type: "req",
          id: eventType,
          method: "events.ingest",
          params: { eventType, payload, target: targets[index] },
        });
      }
      const waited = new Set<string>(["presence", "heartbeat", "metrics", "log", "custom"]);
      while (waited.size > 0) {
        const { type, event, payload } = Object(await client.next());
        if (type !== "event") continue;
        waited.delete(event);
        const name = EVENTS.find((known) => known === event);
        expect(name && EVENT_SPECS[name].payload.parse(payload), event).to.deep.equal(payload);
      }
      await client.close();
    } finally {
      await gateway.close();
    }
  });

  it("tells what a real handshake says", async () => {
    const gateway = await testGateway();
    try {
      const client = await WsClient.open(gateway.url);
      const refused = await client.call("connect", { auth: { token: "wrong" } });
      expect(errorFrame.parse(refused)).to.deep.equal(refused);
      const request = { client: { id: "me" }, auth: { token: OPERATOR_TOKEN } };
      connectFrame.parse({ type: "req", id: "1", method: "connect", params: request });
      const hello = await client.call("connect", request);
      expect(helloFrame.parse(hello)).to.deep.equal(hello);
      await client.close();
    } finally {
      await gateway.close();
    }
  });
});

function compiled(payload: object, schemas: object): z.ZodType {
  const text = JSON.stringify({ ...payload, definitions: schemas });
  return z.fromJSONSchema(JSON.parse(text.replaceAll("#/components/schemas/", "#/definitions/")), {
    defaultTarget: "draft-7",
  });
}

function referencesIn(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, member]: [string, unknown]) =>
    name === "$ref" && typeof member === "string" ? [member] : referencesIn(member),
  );
}

function at(root: unknown, pointer: string): unknown {
  return pointer
    .replace(/^#\//, "")
    .split("/")
    .reduce<unknown>((value, name) => Reflect.get(Object(value), name), root);
}
