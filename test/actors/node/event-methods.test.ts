/** Proves, over real sockets, what the others hear of what a node tells of itself. */
import { expect } from "chai";
import { TOLD_MAX_BYTES } from "../../../actors/events/told.ts";
import { EVENT_ATTEMPTS } from "../../../actors/node/event-methods.ts";
import { type DoorNode, NodeDoor } from "../../support/node-door.ts";
import { CAPABILITIES } from "../../support/nodes-room.ts";
import type { Party } from "../../support/party.ts";

describe("what a node tells of itself", () => {
  let door: NodeDoor;
  let browser: DoorNode;
  let node: Party;

  beforeEach(async () => {
    door = await NodeDoor.open();
    browser = await door.pair("browser-1");
    node = await door.connect(browser);
  });
  afterEach(() => door.close());

  const cases: readonly [string, object, string, object][] = [
    ...[
      "status",
      "error",
      "connected",
      "disconnected",
      "invoke_completed",
      "invoke_failed",
      "capability_changed",
      "custom",
      `custom_${"x".repeat(64)}`,
    ].map((type): [string, object, string, object] => [
      type,
      { a: 1, runId: "r", nodeId: "another" },
      "custom",
      { type, payload: { a: 1, runId: "r", nodeId: "another" } },
    ]),
    ["metrics", { cpu: 1 }, "metrics", { payload: { cpu: 1 } }],
    ["log", { level: "warn", message: "m" }, "log", { level: "warn", message: "m" }],
    ["log", { message: "m".repeat(501) }, "log", { level: "info", message: "m".repeat(500) }],
    ["heartbeat", { agentId: "a", status: "ok" }, "heartbeat", { agentId: "a", status: "ok" }],
  ];
  for (const [eventType, payload, event, told] of cases) {
    it(`is heard as ${event} by those who hear nodes or the system (${eventType.slice(0, 20)} ${Object.keys(payload)})`, async () => {
      const hearing = [await door.operator("nodes"), await door.operator("system")];
      const deaf = await door.operator("run:r", "goals");
      const { nodeId } = browser;
      expect(await node.call("node.event", { eventType, payload })).to.deep.equal({
        eventType,
        broadcast: true,
        summary: { eventType, event, nodeId },
      });
      const timestampMs = door.clock.nowMs();
      for (const party of hearing) {
        expect(await party.told()).to.deep.equal([
          { event, payload: { ...told, timestampMs, nodeId } },
        ]);
      }
      expect(await deaf.told()).to.deep.equal([]);
      expect(await node.told()).to.deep.equal([]);
    });
  }

  it("is a sign of life, also of a node that another way is online", async () => {
    const watcher = await door.operator();
    const worker = await door.pair("worker-1", { capabilities: CAPABILITIES });
    const session = await door.connect(worker);
    await door.clock.advance(5_000);
    await session.call("node.event", { eventType: "status" });
    const { status, lastSeenMs } = await watcher.call("node.describe", { nodeId: worker.nodeId });
    expect(status).to.equal("offline");
    expect(lastSeenMs).to.equal(door.clock.nowMs());
  });

  it("is refused from others, of another type, and beyond 64 KiB; nobody hears of it", async () => {
    const watcher = await door.operator("nodes");
    const refused = await watcher.refusal("node.event", { eventType: "status" });
    expect(refused).to.include({
      code: "FORBIDDEN",
      message: "Method node.event requires node role",
    });
    for (const eventType of [
      "tick",
      "presence",
      "",
      "custom_",
      `custom_${"x".repeat(65)}`,
      "Log",
    ]) {
      const { code, message } = await node.refusal("node.event", { eventType });
      expect(code).to.equal("INVALID_REQUEST");
      expect(message).to.match(/^Invalid params: eventType: must be status, heartbeat, /);
    }
    const overhead = JSON.stringify({ text: "" }).length;
    const text = "x".repeat(TOLD_MAX_BYTES - overhead);
    const oversized = { eventType: "custom", payload: { text: `${text}x` } };
    expect((await node.refusal("node.event", oversized)).details).to.include({ code: "too_large" });
    expect(await watcher.told()).to.deep.equal([]);
    await node.call("node.event", { eventType: "custom", payload: { text } });
    expect(await watcher.told()).to.have.length(1);
  });

  it("is heard two hundred times at once, and then twenty times a second", async () => {
    const { burst, refillMs } = EVENT_ATTEMPTS;
    const other = await door.connect(await door.pair("browser-2"));
    const event = { eventType: "custom" };
    for (let n = 0; n < burst; n += 1) await node.call("node.event", event);
    const { code, details } = await node.refusal("node.event", event);
    expect(code).to.equal("RATE_LIMITED");
    expect(details).to.include({ retryAfterMs: refillMs, mutationMayHaveApplied: false });
    await other.call("node.event", event);
    await door.clock.advance(refillMs);
    await node.call("node.event", event);
    expect((await node.refusal("node.event", event)).code).to.equal("RATE_LIMITED");
  });

  it("does not stand in a log", async () => {
    await node.call("node.event", { eventType: "log", payload: { message: "c4n4ry" } });
    expect(`${door.gateway.text()}${door.room.system.text()}`).to.not.include("c4n4ry");
  });
});
