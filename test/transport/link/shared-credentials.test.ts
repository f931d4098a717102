/**
 * A node's credentials in the hands of somebody else as well: whoever takes them is found by what stands
 * beside the node itself, and the key is worth nothing to either from then on.
 */
import { expect } from "chai";
import { createWorkerLife } from "../../../transport/link/worker-life.ts";
import { joinNode, startController, type TestController } from "../../support/link-fleet.ts";
import { openRawLeaf } from "../../support/raw-leaf.ts";

const HOUR_MS = 3_600_000;

describe("credentials in two hands", () => {
  let controller: TestController;
  before(async () => {
    controller = await startController();
  });
  after(() => controller[Symbol.asyncDispose]());

  it("are revoked, and told, as soon as a second server uses them", async () => {
    const node = await joinNode(controller);
    const bystander = await joinNode(controller, { handlers: { ping: () => "pong" } });
    const jwt = await controller.link.issue(node.key, node.life.link.getPublicKey(), {
      expiresInMs: HOUR_MS,
    });
    const thief = await openRawLeaf({
      url: controller.websocketUrl,
      jwt,
      key: node.life.link,
      serverName: "n-thief",
    });
    const shared = await controller.event((event) => event.type === "shared");
    expect(shared).to.deep.equal({
      type: "shared",
      account: node.key,
      userKey: node.life.link.getPublicKey(),
    });
    await thief.closed;
    await controller.event(
      (event) =>
        event.type === "disconnected" &&
        event.connection.account === node.key &&
        event.remaining === 0,
    );
    const again = await controller.link
      .issue(node.key, node.life.link.getPublicKey(), { expiresInMs: HOUR_MS })
      .catch((error: { code: string }) => error.code);
    expect(again).to.equal("node_revoked");
    expect(
      await controller.caller.call(bystander.key, {
        method: "ping",
        params: null,
        generation: 1,
        deadlineMs: 30_000,
        mutation: false,
      }),
    ).to.equal("pong");
    await node[Symbol.asyncDispose]();
    await bystander[Symbol.asyncDispose]();
  });

  it("are revoked when the second stands beside the first under its own server name", async () => {
    const node = await joinNode(controller);
    const jwt = await controller.link.issue(node.key, node.life.link.getPublicKey(), {
      expiresInMs: HOUR_MS,
    });
    const thief = await openRawLeaf({
      url: controller.websocketUrl,
      jwt,
      key: node.life.link,
      serverName: node.life.serverName,
      // The hub takes no two of one name and cluster; a peer need not say which cluster it is.
      claims: { cluster: undefined },
    });
    await controller.event((event) => event.type === "shared" && event.account === node.key);
    // Both stood at once: two came before one was cut. It is told when both are.
    const told = controller.events.flatMap((event) => {
      const account = event.type === "shared" ? event.account : event.connection.account;
      return account === node.key ? event.type : [];
    });
    expect(told.slice(0, 2)).to.deep.equal(["connected", "connected"]);
    await thief.closed;
    await node[Symbol.asyncDispose]();
  });

  it("are revoked also when the second takes the first one's server name and both keep coming back", async () => {
    const key = await controller.link.provision();
    const life = createWorkerLife();
    const jwt = await controller.link.issue(key, life.link.getPublicKey(), {
      expiresInMs: HOUR_MS,
    });
    const open = () =>
      openRawLeaf({
        url: controller.websocketUrl,
        jwt,
        key: life.link,
        serverName: life.serverName,
      });
    let opened = 0;
    let refused = false;
    while (!refused) {
      expect(opened, "links taken over").to.be.below(30);
      await open().then(
        () => {
          opened += 1;
        },
        () => {
          refused = true;
        },
      );
    }
    const shared = await controller.event(
      (event) => event.type === "shared" && event.account === key,
    );
    expect(shared).to.include({ userKey: life.link.getPublicKey() });
    expect(opened).to.be.at.least(5);
  });
});
