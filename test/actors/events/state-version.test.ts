/** Proves what the counters beside an event say (control-plane-wire.md 1.6). */
import { expect } from "chai";
import { Broadcast } from "../../../actors/events/broadcast.ts";
import type { Caller } from "../../../actors/session/handler.ts";
import type { ConnectionId } from "../../../protocol/ids.ts";
import type { Role, Scope } from "../../../protocol/scopes.ts";

const CANCEL = { invokeId: "i", nodeId: "n", reason: "timeout" };

describe("the version of what events count", () => {
  let broadcast: Broadcast;
  const frames = new Map<string, { event: string; seq: number; stateVersion: unknown }[]>();

  beforeEach(() => {
    broadcast = new Broadcast();
    frames.clear();
  });

  function join(name: string, role: Role = "operator", scopes: readonly Scope[] = ["read"]) {
    const told: { event: string; seq: number; stateVersion: unknown }[] = [];
    frames.set(name, told);
    const take = (text: string): void => void told.push(JSON.parse(text));
    const caller: Caller = {
      role,
      scopes,
      clientId: null,
      node: null,
      connectionId: name as ConnectionId,
      remoteAddress: "127.0.0.1",
      closed: new AbortController().signal,
      close() {},
    };
    broadcast.join(caller, { event: take, answer: take });
  }
  const cancel = (name: string) =>
    broadcast.tell(name as ConnectionId, "node.invoke.cancel", CANCEL);
  const presence = () => broadcast.publish("presence", { connections: [], count: 0 });
  const health = () => broadcast.publish("health", { ok: true, hub: "connected" });
  const versions = (name: string) => frames.get(name)?.map(({ stateVersion }) => stateVersion);

  it("is whole beside every published event, also the first", () => {
    join("a");
    broadcast.publish("tick", { timestampMs: 1 });
    expect(versions("a")).to.deep.equal([{ presence: 0, health: 0, cron: 0 }]);
  });

  it("rises with what it counts, for those too who come later", () => {
    join("a");
    presence();
    health();
    presence();
    join("b");
    broadcast.publish("tick", { timestampMs: 1 });
    const last = { presence: 2, health: 1, cron: 0 };
    expect(versions("a")).to.deep.equal([
      { presence: 1, health: 0, cron: 0 },
      { presence: 1, health: 1, cron: 0 },
      last,
      last,
    ]);
    expect(versions("b")).to.deep.equal([last]);
  });

  it("is empty beside what is told to one connection before any other event", () => {
    join("a");
    join("node", "node", []);
    for (const name of ["a", "node"]) cancel(name);
    presence();
    for (const name of ["a", "node"]) cancel(name);
    const first = { presence: 1, health: 0, cron: 0 };
    expect(versions("a")).to.deep.equal([{}, first, first]);
    expect(versions("node")).to.deep.equal([{}, {}]);
  });

  it("is neither raised nor numbered by what a connection does not hear", () => {
    join("deaf");
    join("writer", "operator", ["write"]);
    broadcast.subscriptionOf("deaf" as ConnectionId).clear();
    presence();
    health();
    for (const name of ["deaf", "writer"]) cancel(name);
    expect(frames.get("deaf")).to.deep.equal([
      { type: "event", event: "node.invoke.cancel", seq: 1, payload: CANCEL, stateVersion: {} },
    ]);
    // Health is everybody's to hear; presence is not.
    expect(versions("writer")).to.deep.equal([
      { presence: 1, health: 1, cron: 0 },
      { presence: 1, health: 1, cron: 0 },
    ]);
  });
});
