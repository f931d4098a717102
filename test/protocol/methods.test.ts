import { expect } from "chai";
import { METHODS } from "../../protocol/methods.ts";

describe("a declared method", () => {
  for (const { name, effect, params, settledBy } of METHODS.values()) {
    if (settledBy === null) continue;
    it(`${name} is settled by a read that is declared, with parameters that both have`, () => {
      const read = METHODS.get(settledBy.method);
      expect(effect).to.equal("mutation");
      expect(read?.effect).to.equal("read");
      expect(Object.keys(params.shape)).to.include.members(settledBy.params);
      const needed = Object.entries(read?.params.shape ?? {}).filter(
        ([, field]) => field._zod.optin === undefined,
      );
      expect(needed.map(([field]) => field).sort()).to.deep.equal([...settledBy.params].sort());
    });
  }
});

describe("a mutation whose answer was lost", () => {
  for (const { name, effect, retrySafe, settledBy, unsettled } of METHODS.values()) {
    if (effect !== "mutation") continue;
    it(`${name} may be repeated, or is settled by a read, or says what to do without one`, () => {
      expect(unsettled !== null).to.equal(!retrySafe && settledBy === null);
    });
  }
});

/** Of control-plane-wire.md 2.3, those that are served, by the scopes of which any one is enough. */
const CONTRACT: Readonly<Record<string, readonly string[]>> = {
  "": ["health", "connect.challenge", "node.pair.verify"],
  pairing: ["node.pair.request", "node.pair.list", "node.pair.approve", "node.pair.reject"],
  admin: [
    "config.set",
    "config.patch",
    "device.pair.request",
    "device.pair.approve",
    "device.pair.reject",
    "node.rename",
    "node.fs.list",
    "node.fs.stat",
    "node.fs.read",
    "node.fs.write",
    "node.fs.mkdir",
    "node.fs.move",
    "node.fs.delete.preview",
    "node.fs.delete",
    "node.process.run",
    "node.process.get",
    "node.process.cancel",
  ],
  write: ["events.ingest", "node.invoke"],
  read: [
    "status",
    "config.get",
    "config.schema",
    "events.subscribe",
    "events.unsubscribe",
    "events.subscriptions.list",
    "introspection.snapshot",
    "logs.tail",
    "node.list",
    "node.describe",
    "node.host.info",
    "system-presence",
  ],
  invoke: ["node.invoke.result"],
};

describe("the scope of a method", () => {
  for (const [scope, methods] of Object.entries(CONTRACT)) {
    it(`is ${scope === "" ? "none" : scope} for ${methods.join(" ")}`, () => {
      for (const name of methods) {
        const scopes = METHODS.get(name)?.scopes;
        expect(scopes, name).to.deep.equal(scope === "" ? [] : [scope]);
      }
    });
  }

  it("is the role of a node where only a node can call", () => {
    const ofNodes = [...METHODS.values()].filter(({ role }) => role === "node");
    expect(ofNodes.map(({ name }) => name)).to.include.members([
      "node.event",
      "node.invoke.result",
      "node.link.open",
    ]);
  });

  it("is an administrator's for whatever changes a node, a file, a process or a setting", () => {
    for (const { name, effect, scopes, role } of METHODS.values()) {
      if (effect !== "mutation" || scopes.length === 0 || role !== undefined) continue;
      if (!/^(?:config|device|node)\./.test(name) || /^node\.(?:pair|invoke)\b/.test(name))
        continue;
      expect(scopes, name).to.deep.equal(["admin"]);
    }
  });
});
