import { assert } from "chai";
import type { Identity } from "../../../actors/session/handler.ts";
import type { NodeId } from "../../../protocol/ids.ts";
import { testGateway } from "../../support/gateway.ts";
import { WsClient } from "../../support/ws-client.ts";

const REPLACED = { code: 4001, reason: "replaced" };

function node(name: string, sessionGeneration: number): Identity {
  return { role: "node", clientId: name, node: { nodeId: name as NodeId, sessionGeneration } };
}

describe("the end of connections", () => {
  it("ends a node's of older sessions and nobody else's", async () => {
    const gateway = await testGateway({
      authenticate: async ({ token }) => {
        const [name = "", generation = "0"] = (token ?? "").split(":");
        if (name === "operator") return { role: "operator", clientId: null, node: null };
        return node(name, Number(generation));
      },
    });
    try {
      const connect = (token: string) => WsClient.connect(gateway.url, { auth: { token } });
      const older = [await connect("a:1"), await connect("a:2")];
      const kept = [await connect("a:3"), await connect("b:1"), await connect("operator")];
      gateway.roster.endNode("a" as NodeId, 3, REPLACED);
      for (const client of older) assert.deepEqual(await client.closed(), REPLACED);
      for (const client of kept) assert.equal((await client.call("health")).ok, true);
      assert.deepEqual(gateway.roster.counts(), { active: 3, operators: 1, nodes: 2, devices: 0 });

      gateway.roster.endNode("a" as NodeId, null, REPLACED);
      const [last, ...others] = kept;
      assert.deepEqual(await last?.closed(), REPLACED);
      for (const client of others) assert.equal((await client.call("health")).ok, true);
    } finally {
      await gateway.close();
    }
  });

  it("reaches a node that is being authenticated: it is refused, and may try again", async () => {
    const asked: PromiseWithResolvers<void>[] = [];
    const answers: PromiseWithResolvers<Identity>[] = [];
    const gateway = await testGateway({
      authenticate: () => {
        const answer = Promise.withResolvers<Identity>();
        answers.push(answer);
        asked.shift()?.resolve();
        return answer.promise;
      },
    });
    try {
      const client = await WsClient.open(gateway.url);
      /** Begins a connect, ends what `endings` say meanwhile, then lets the node's identity be known. */
      const connect = async (...endings: (readonly [string, number | null])[]) => {
        const begun = Promise.withResolvers<void>();
        asked.push(begun);
        client.request("connect", {});
        await begun.promise;
        for (const [name, olderThan] of endings) {
          gateway.roster.endNode(name as NodeId, olderThan, REPLACED);
        }
        answers.at(-1)?.resolve(node("a", 5));
        return client.next();
      };
      for (const olderThan of [null, 6]) {
        const refused = await connect(["a", olderThan]);
        assert.equal(refused.error?.code, "UNAUTHORIZED");
        assert.equal(refused.error?.details?.["code"], "node_revoked");
        assert.equal(gateway.roster.counts().active, 0);
      }
      assert.equal((await connect(["a", 5], ["b", null]))["type"], "hello-ok");
      assert.equal((await client.call("health")).ok, true);
    } finally {
      await gateway.close();
    }
  });

  it("reaches a device that is being authenticated, and whoever else only bears its id does not hear of it", async () => {
    const begun = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    const gateway = await testGateway({
      authenticate: async ({ token, clientId }) => {
        if (token === "operator") return { role: "operator", clientId, node: null };
        if (token === "node") return node("d", 1);
        if (token === "late") {
          begun.resolve();
          await answer.promise;
        }
        return { role: "device", clientId: token === "other" ? "e" : "d", node: null };
      },
    });
    try {
      const connect = (token: string) =>
        WsClient.connect(gateway.url, { auth: { token }, client: { id: "d" } });
      const kept = [await connect("operator"), await connect("node"), await connect("other")];
      const device = await connect("device");
      const late = await WsClient.open(gateway.url);
      late.request("connect", { auth: { token: "late" } });
      await begun.promise;
      gateway.roster.endNode("d" as NodeId, 0, REPLACED);
      assert.equal((await device.call("health")).ok, true);
      assert.deepEqual(
        [...gateway.roster.ofDevices()],
        [
          ["e", 1],
          ["d", 1],
        ],
      );
      gateway.roster.endDevice("d", REPLACED);
      answer.resolve();
      assert.deepEqual(await device.closed(), REPLACED);
      const refused = await late.next();
      assert.equal(refused.error?.code, "UNAUTHORIZED");
      assert.equal(refused.error?.message, "Invalid token");
      for (const client of kept) assert.equal((await client.call("health")).ok, true);
      assert.deepEqual([...gateway.roster.ofDevices()], [["e", 1]]);
    } finally {
      await gateway.close();
    }
  });
});
