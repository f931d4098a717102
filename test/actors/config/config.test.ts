/** Proves the settings of a control plane, over a real socket and a store that fails where a test says. */
import { expect } from "chai";
import { configMethods } from "../../../actors/config/methods.ts";
import {
  SETTINGS_DOCUMENTS,
  type Settings,
  type SettingsProtocol,
  settingsSpec,
} from "../../../actors/config/settings.ts";
import { POLICY } from "../../../protocol/frames.ts";
import { CONFIG_BOUNDS } from "../../../protocol/methods/config.ts";
import type { ActorRef } from "../../../supervision/actor.ts";
import { createActorSystem } from "../../../supervision/system.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type TestGateway, testGateway } from "../../support/gateway.ts";
import { logLines } from "../../support/log-lines.ts";
import { MemoryDocuments } from "../../support/memory-documents.ts";
import { type Frame, operator, WsClient } from "../../support/ws-client.ts";

describe("the settings of a control plane", () => {
  let documents: MemoryDocuments<Settings>;
  let levels: string[];
  let level: string;
  let settings: ActorRef<SettingsProtocol>;
  let gateway: TestGateway;
  let client: WsClient;
  const stack: (() => Promise<unknown>)[] = [];

  async function start(logLevelIsChosen = false): Promise<void> {
    const system = createActorSystem({
      name: "settings",
      log: logLines().log,
      clock: new FakeClock(),
    });
    stack.push(() => system.shutdown({ withinMs: 0 }));
    settings = await system.root.startActor(
      settingsSpec({
        documents,
        logLevelIsChosen,
        setLogLevel: (next) => {
          level = next;
          levels.push(next);
        },
      }),
    );
    const started = await testGateway({
      handlers: configMethods({ settings, policy: POLICY, logLevel: () => level }),
    });
    stack.push(() => started.close());
    gateway = started;
    client = await WsClient.connect(gateway.url);
  }

  beforeEach(() => {
    documents = new MemoryDocuments(SETTINGS_DOCUMENTS.parse);
    levels = [];
    level = "info";
  });
  afterEach(async () => {
    for (const end of stack.splice(0).reverse()) await end();
  });

  const messageOf = ({ error }: Frame) => [error?.code, error?.message];

  it("are what the build knows, until something is stored", async () => {
    await start();
    expect((await client.call("config.get")).payload).to.deep.equal({
      logLevel: "info",
      maxPayload: 4_194_304,
      tickIntervalMs: 15_000,
      summary: { keyCount: 3, sensitiveCount: 0 },
    });
    expect((await client.call("config.get", { key: "nothing" })).payload).to.deep.equal({
      key: "nothing",
      value: null,
      summary: { requestedKey: "nothing", found: false, sensitive: false, valueReturned: false },
    });
  });

  it("are stored before they are acknowledged, and there again after a restart", async () => {
    await start();
    const set = await client.call("config.set", { key: "routerModel", value: { name: "m" } });
    expect(set.payload).to.deep.equal({
      key: "routerModel",
      value: { name: "m" },
      success: true,
      summary: { key: "routerModel", sensitive: false },
    });
    expect(documents.text()).to.contain("routerModel");
    await start();
    expect(
      Object((await client.call("config.get", { key: "routerModel" })).payload).value,
    ).to.deep.equal({ name: "m" });
  });

  it("put a log level in force at once, and again at the next start unless that chooses one", async () => {
    await start();
    await client.call("config.set", { key: "logLevel", value: "debug" });
    expect(levels).to.deep.equal(["debug"]);
    expect(Object((await client.call("config.get")).payload).logLevel).to.equal("debug");
    await start();
    expect(levels).to.deep.equal(["debug", "debug"]);
    await start(true);
    expect(levels).to.deep.equal(["debug", "debug"]);
  });

  it("never show what looks like a secret, in no answer", async () => {
    await start();
    const canary = "c4n4ry";
    const set = await client.call("config.set", { key: "apiKey", value: canary });
    await client.call("config.set", { key: "nested", value: { password: canary, a: 1 } });
    const text = await client.call("config.set", { key: "note", value: `Bearer ${canary}` });
    const patched = await client.call("config.patch", { patch: { botToken: canary } });
    const all = await client.call("config.get");
    const one = await client.call("config.get", { key: "apiKey" });
    expect(JSON.stringify([set, text, patched, all, one])).not.to.contain(canary);
    expect(Object(set.payload)).to.deep.include({
      value: { redacted: true, kind: "secret" },
      summary: { key: "apiKey", sensitive: true },
    });
    expect(Object(all.payload)).to.deep.include({
      note: "Bearer [REDACTED]",
      botToken: { redacted: true, kind: "secret" },
      summary: { keyCount: 7, sensitiveCount: 2 },
    });
    expect(Object(all.payload).nested).to.deep.equal({
      password: { redacted: true, kind: "secret" },
      a: 1,
    });
    expect(Object(one.payload).summary).to.deep.equal({
      requestedKey: "apiKey",
      found: true,
      sensitive: true,
      valueReturned: false,
    });
    expect(gateway.text()).not.to.contain(canary);
  });

  it("change together or not at all", async () => {
    await start();
    const patch = { a: 1, b: [true] };
    expect((await client.call("config.patch", { patch })).payload).to.deep.equal({
      success: true,
      applied: ["a", "b"],
      summary: { appliedCount: 2 },
    });
    const refused = await client.call("config.patch", { patch: { c: 1, logLevel: "loud" } });
    expect(messageOf(refused)[1]).to.equal(
      "Invalid params: logLevel: must be one of trace, debug, info, warn, error, fatal, silent",
    );
    expect(Object((await client.call("config.get", { key: "c" })).payload).summary.found).to.equal(
      false,
    );
  });

  it("are refused when they can not be changed, or not be kept", async () => {
    await start();
    for (const [params, message] of [
      [{ key: "maxPayload", value: 1 }, "Invalid params: maxPayload: can not be changed"],
      [{ key: "summary", value: 1 }, "Invalid params: summary: can not be changed"],
      [{ key: "key", value: 1 }, "Invalid params: key: can not be changed"],
      [{ key: "value", value: 1 }, "Invalid params: value: can not be changed"],
      [{ key: "a" }, "Missing required fields: value"],
      [{ key: "a", value: null }, "Missing required fields: value"],
      [{ value: 1 }, "Missing required fields: key"],
      [{ key: 1, value: 1 }, "Type errors: key: expected string, got integer"],
      [
        { key: "1a", value: 1 },
        "Invalid params: key: must be 1 to 128 of letters, digits, _, . and -, beginning with a letter",
      ],
    ] as const) {
      const refused = await client.call("config.set", params);
      expect(messageOf(refused)).to.deep.equal(["INVALID_REQUEST", message]);
    }
    for (const [patch, message] of [
      [undefined, "Missing required fields: patch"],
      [[], "Type errors: patch: expected map, got list"],
      [{ a: 1, tickIntervalMs: 1 }, "Invalid params: tickIntervalMs: can not be changed"],
      [{ a: 1, b: null }, "Invalid params: b: must not be null"],
      [{ a: 1, "b c": 1 }, "Invalid params: patch.b c: has a key that is not allowed"],
    ] as const) {
      const refused = await client.call("config.patch", { patch });
      expect(messageOf(refused)).to.deep.equal(["INVALID_REQUEST", message]);
    }
    expect(documents.writes).to.equal(0);
  });

  it("have names that can be asked for alone; null asks for all", async () => {
    await start();
    expect(messageOf(await client.call("config.get", { key: "a b" }))).to.deep.equal([
      "INVALID_REQUEST",
      "Invalid params: key: must be 1 to 128 of letters, digits, _, . and -, beginning with a letter",
    ]);
    const all = await client.call("config.get", { key: null });
    expect(all.payload).to.have.property("maxPayload");
    for (const key of ["constructor", "toString", "hasOwnProperty"]) {
      const { payload } = await client.call("config.get", { key });
      expect(payload).to.deep.include({ key, value: null });
    }
  });

  it("are at most 256, and 64 KiB together", async () => {
    await start();
    const patch = Object.fromEntries(
      Array.from({ length: CONFIG_BOUNDS.settings }, (_, n) => [`k${n}`, n]),
    );
    expect((await client.call("config.patch", { patch })).ok).to.equal(true);
    const more = await client.call("config.set", { key: "oneMore", value: 1 });
    expect(messageOf(more)[1]).to.equal("Invalid params: at most 256 settings are kept");

    documents = new MemoryDocuments(SETTINGS_DOCUMENTS.parse);
    await start();
    const value = "x".repeat(CONFIG_BOUNDS.bytes - JSON.stringify({ a: "" }).length);
    const large = await client.call("config.set", { key: "a", value: `${value}x` });
    expect(large.error?.details?.["code"]).to.equal("too_large");
    expect((await client.call("config.set", { key: "a", value })).ok).to.equal(true);
  });

  it("lose nothing of changes that come at once, or whose answer was lost", async () => {
    await start();
    for (let n = 0; n < 20; n += 1) client.request("config.set", { key: `k${n}`, value: n });
    for (const { ok } of await client.take(20)) expect(ok).to.equal(true);
    documents.writeFaults.push({ kind: "lost", applied: true });
    const lost = await client.call("config.set", { key: "lost", value: 1 });
    expect(lost.error?.details?.["mutationMayHaveApplied"]).to.equal(true);
    expect((await client.call("config.set", { key: "next", value: 1 })).ok).to.equal(true);
    const all = Object((await client.call("config.get")).payload);
    expect([all.k0, all.k19, all.lost, all.next]).to.deep.equal([0, 19, 1, 1]);
  });

  it("change nothing in force while the store does not take them", async () => {
    await start();
    documents.writeFaults.push({ kind: "refused" });
    const refused = await client.call("config.set", { key: "logLevel", value: "trace" });
    expect(refused.error?.details).to.include({
      code: "unavailable",
      mutationMayHaveApplied: false,
    });
    expect(levels).to.deep.equal([]);
  });

  it("are described by a schema", async () => {
    await start();
    const { schema, summary } = Object((await client.call("config.schema")).payload);
    expect(schema.type).to.equal("object");
    expect(summary).to.deep.equal({ propertyCount: 3 });
    // Every setting that is there without anybody having stored it, and none that does nothing.
    const { summary: _, ...all } = Object((await client.call("config.get")).payload);
    expect(Object.keys(schema.properties)).to.deep.equal(Object.keys(all));
    for (const [name, { readOnly = false }] of Object.entries<{ readOnly?: boolean }>(
      schema.properties,
    )) {
      const { ok } = await client.call("config.set", { key: name, value: all[name] });
      expect(ok, name).to.equal(!readOnly);
    }
  });

  it("are an administrator's to change, and a reader's to see", async () => {
    await start();
    const reader = await WsClient.connect(gateway.url, operator({ scopes: ["read"] }));
    expect((await reader.call("config.get")).ok).to.equal(true);
    const refused = await reader.call("config.set", { key: "a", value: 1 });
    expect(messageOf(refused)).to.deep.equal([
      "FORBIDDEN",
      "Insufficient permissions for config.set",
    ]);
  });
});
