/** The proxy with what it is for: a real leaf before it, the real hub behind it. */
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { refuseLeaf } from "../../../gateways/http/leaf-refusal.ts";
import { systemClock } from "../../../host/clock.ts";
import { leafRemoteUrl } from "../../../transport/link/leaf.ts";
import { createLeafProxy, type LeafProxy } from "../../../transport/link/proxy.ts";
import { joinNode, startController, type TestController } from "../../support/link-fleet.ts";
import { tempFolder } from "../../support/temp-folder.ts";
import { TEST_TLS } from "../../support/tls-fixture.ts";

describe("a leaf behind the controller's own port", () => {
  let controller: TestController;
  let proxy: LeafProxy;
  before(async () => {
    controller = await startController();
    const { websocket: port } = controller.hub.child.ports;
    proxy = createLeafProxy({
      hubWebsocket: { host: "127.0.0.1", port },
      refuse: refuseLeaf,
      clock: systemClock,
      log: controller.log.log,
    });
  });
  after(async () => {
    proxy.close();
    await controller[Symbol.asyncDispose]();
  });

  /** The controller's port, with TLS or without. */
  async function port(tls: boolean): Promise<AsyncDisposable & { readonly port: number }> {
    const server = tls ? createHttpsServer(TEST_TLS) : createHttpServer();
    server.on("upgrade", proxy.upgrade);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return {
      port: (server.address() as AddressInfo).port,
      [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
    };
  }

  const echo = (
    node: { readonly key: Parameters<TestController["caller"]["call"]>[0] },
    params: unknown,
  ) =>
    controller.caller.call(node.key, {
      method: "echo",
      params,
      generation: 1,
      deadlineMs: 30_000,
      mutation: false,
    });

  for (const tls of [false, true]) {
    it(`is linked over ${tls ? "wss, trusting the authority it was given" : "ws"}, and carries messages of every size`, async () => {
      await using listening = await port(tls);
      using folder = tempFolder();
      const caFile = join(folder.path, "ca.pem");
      writeFileSync(caFile, TEST_TLS.cert);
      await using node = await joinNode(controller, {
        url: leafRemoteUrl(`${tls ? "wss" : "ws"}://localhost:${listening.port}/ws`),
        handlers: { echo: (params) => params },
        ...(tls ? { caFile } : {}),
      });
      for (const size of [0, 1, 125, 126, 65_535, 65_536, 4_000_000]) {
        const bytes = Buffer.alloc(size, size % 251);
        expect(bytes.equals((await echo(node, bytes)) as Buffer), `${size} bytes`).to.equal(true);
      }
      const many = Array.from({ length: 200 }, (_, at) => at);
      expect(await Promise.all(many.map((at) => echo(node, at)))).to.deep.equal(many);
    });
  }
});
