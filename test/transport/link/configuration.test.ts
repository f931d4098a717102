/** What the experiments on the node link ran with, asked of the servers themselves while they run. */
import { errors, type NatsConnection, nkeyAuthenticator } from "@nats-io/transport-node";
import { expect } from "chai";
import {
  joinNode,
  startController,
  type TestController,
  type TestNode,
} from "../../support/link-fleet.ts";

const FOREIGN = ["$JS.>", "$KV.>", "$O.>", "$SYS.>"];

describe("a hub and a node's server that run", () => {
  let controller: TestController;
  let node: TestNode;
  let nodeSystem: NatsConnection;
  before(async () => {
    controller = await startController();
    node = await joinNode(controller);
    const authenticator = nkeyAuthenticator(node.life.system.getSeed());
    nodeSystem = await node.server.connect({ authenticator });
  });
  after(async () => {
    await node[Symbol.asyncDispose]();
    await controller[Symbol.asyncDispose]();
  });

  const aboutItself = async (system: NatsConnection) =>
    (await system.request("$SYS.REQ.SERVER.PING.VARZ")).json<{
      readonly data: Readonly<Record<string, unknown>>;
    }>().data;

  it("take large messages, notice a dead line within 15 s, and sync before they acknowledge", async () => {
    for (const [system, domain] of [
      [controller.system, "hub"],
      [nodeSystem, node.key],
    ] as const) {
      const server = await aboutItself(system);
      expect(server).to.deep.include({
        max_payload: 8 * 1024 * 1024,
        max_pending: 256 * 1024 * 1024,
        ping_interval: 5_000_000_000,
        ping_max: 2,
        auth_required: true,
        http_port: 0,
        https_port: 0,
      });
      expect(server["jetstream"]).to.nested.include({
        "config.sync_always": true,
        "config.domain": domain,
      });
    }
  });

  it("carry none of the other's JetStream, KV, objects and system subjects over the link", async () => {
    const { leaf } = await aboutItself(nodeSystem);
    expect(leaf).to.deep.nested.include({
      "remotes[0].local_account": "LINK",
      "remotes[0].deny": { imports: FOREIGN, exports: FOREIGN },
    });
  });

  it("keep the node's JetStream out of the controller's reach, and the hub's out of the node's", async () => {
    const refusal = (connection: NatsConnection, subject: string): Promise<unknown> =>
      connection.request(subject, "", { timeout: 5_000 }).then(
        (message) => message.string(),
        (error: unknown) => error,
      );
    for (const subject of [`$JS.${node.key}.API.INFO`, "$KV.receipts.x"]) {
      const refused = await refusal(controller.connection, subject);
      const isNobody = refused instanceof errors.RequestError && refused.isNoResponders();
      expect(isNobody, subject).to.equal(true);
    }
    for (const subject of ["$JS.API.INFO", "$JS.hub.API.INFO", "$KV.lemon-nodes.x", "$SYS.REQ.X"]) {
      expect(String(await refusal(node.connection, subject)), subject).to.match(
        /permissions violation/i,
      );
    }
  });
});
