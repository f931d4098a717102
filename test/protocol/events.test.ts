import { expect } from "chai";
import {
  EVENTS,
  type EventName,
  eventText,
  isTopic,
  PRIVATE_EVENTS,
  TOPICS,
  topicsOf,
} from "../../protocol/events.ts";

describe("the topics of events", () => {
  const table = {
    presence: ["presence"],
    tick: ["cron", "system"],
    shutdown: ["system"],
    health: ["system"],
    heartbeat: ["system"],
    metrics: ["system"],
    log: ["system"],
    "node.pair.requested": ["nodes"],
    "node.pair.resolved": ["nodes"],
    "device.pair.requested": ["nodes"],
    "device.pair.resolved": ["nodes"],
    custom: ["system"],
  } as const;

  for (const [event, topics] of Object.entries(table)) {
    it(`are ${topics.join(" and ")} for ${event}`, () => {
      expect(topicsOf(event as EventName, null)).to.deep.equal(topics);
    });
  }

  it("are all that is advertised, but for what is told to one connection alone", () => {
    const told: readonly string[] = [...Object.keys(table), ...PRIVATE_EVENTS];
    expect([...EVENTS].sort()).to.deep.equal([...told].sort());
  });

  it("name the run and the session that the payload names, however it spells them", () => {
    for (const payload of [
      { runId: "r", sessionKey: "s" },
      { run_id: "r", session_key: "s" },
    ]) {
      expect(topicsOf("custom", payload)).to.deep.equal(["system", "run:r", "session:s"]);
    }
    expect(topicsOf("custom", { runId: 7, sessionKey: "" })).to.deep.equal(["system"]);
  });

  it("are the fixed ones, and any run and session, up to 1,024 characters", () => {
    for (const topic of [...TOPICS, "run:r", "session:s", "session:a:b\n", "run:😀"]) {
      expect(isTopic(topic), topic).to.equal(true);
    }
    expect(isTopic(`run:${"x".repeat(1_020)}`)).to.equal(true);
    for (const text of ["", "run", "run:", "session:", "ALL", " all", "topic", "xrun:r"]) {
      expect(isTopic(text), text).to.equal(false);
    }
    expect(isTopic(`run:${"x".repeat(1_021)}`)).to.equal(false);
  });
});

describe("an event's frame", () => {
  const stateVersion = { presence: 1, health: 2, cron: 0 };

  it("is one JSON object with its number and the state's versions", () => {
    const text = eventText("custom", { text: 'a"b' }, stateVersion);
    expect(JSON.parse(text(3))).to.deep.equal({
      type: "event",
      event: "custom",
      seq: 3,
      payload: { text: 'a"b' },
      stateVersion,
    });
  });

  it("has no payload where there is none", () => {
    const frame = JSON.parse(eventText("shutdown", null, stateVersion)(1));
    expect(frame).to.deep.equal({ type: "event", event: "shutdown", seq: 1, stateVersion });
  });
});
