/** Proves what becomes of the node link when the hub, or the controller, was away. */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createUser } from "@nats-io/nkeys";
import { jwtAuthenticator } from "@nats-io/transport-node";
import { expect } from "chai";
import { systemClock } from "../../../host/clock.ts";
import { openHubLink } from "../../../transport/link/hub.ts";
import type { LinkEvent } from "../../../transport/link/watch.ts";
import { joinNode, startController } from "../../support/link-fleet.ts";
import { logLines } from "../../support/log-lines.ts";
import { openRawLeaf } from "../../support/raw-leaf.ts";
import { refusalOf } from "../../support/refusal.ts";

const HOUR_MS = 3_600_000;

describe("a hub that was away", () => {
  it("gets every account again when it lost its resolver's folder", async () => {
    await using controller = await startController();
    const node = await joinNode(controller, { handlers: { ping: () => "pong" } });
    const revoked = createUser();
    const jwt = await controller.link.issue(node.key, revoked.getPublicKey(), {
      expiresInMs: HOUR_MS,
    });
    await controller.link.revoke(node.key, [revoked.getPublicKey()]);

    await controller.hub.kill();
    const jwts = join(controller.folder, "jwt");
    for (const name of readdirSync(jwts)) {
      const kept = [controller.authority.systemAccount, controller.authority.controllerAccount];
      if (!kept.some((account) => name.startsWith(account))) rmSync(join(jwts, name));
    }
    const back = Promise.withResolvers<void>();
    void (async () => {
      for await (const { type } of controller.connection.status()) {
        if (type === "reconnect") back.resolve();
      }
    })();
    const before = controller.events.length;
    await controller.hub.restart();
    await back.promise;
    await controller.event(
      (event) => controller.events.indexOf(event) >= before && event.type === "connected",
    );
    await node.leaf.whenUp(30_000);
    expect(
      await controller.caller.call(node.key, {
        method: "ping",
        params: null,
        generation: 1,
        deadlineMs: 30_000,
        mutation: false,
      }),
    ).to.equal("pong");
    const refused = await openRawLeaf({
      url: controller.websocketUrl,
      jwt,
      key: revoked,
      serverName: "n-revoked",
    }).then(
      () => "accepted",
      (error: Error) => error.message,
    );
    expect(refused).to.match(/authori|revoked/i);
    await node[Symbol.asyncDispose]();
  });

  it("is told what was decided meanwhile: a revocation, a removal", async () => {
    await using controller = await startController();
    const node = await controller.link.provision();
    const removed = await controller.link.provision();
    const key = createUser();
    const jwt = await controller.link.issue(node, key.getPublicKey(), { expiresInMs: HOUR_MS });
    await controller.hub.kill();
    const late = [
      refusalOf(() => controller.link.revoke(node, [key.getPublicKey()])),
      refusalOf(() => controller.link.remove(removed)),
    ];
    for (const refusal of await Promise.all(late)) {
      expect(refusal).to.include({ code: "unavailable", mutationMayHaveApplied: true });
    }
    controller.link.stop();

    // A controller that starts again, after a kill say, knows it from its records alone.
    await controller.hub.restart();
    const events: LinkEvent[] = [];
    const system = await controller.hub.connect({
      authenticator: jwtAuthenticator(
        controller.authority.systemCredentials.jwt,
        controller.authority.systemCredentials.seed,
      ),
    });
    const again = await openHubLink({
      system,
      authority: controller.authority,
      recordsFolder: join(controller.folder, "accounts"),
      clock: systemClock,
      log: logLines().log,
      onEvent: (event) => events.push(event),
      renewal: () => null,
    });
    expect(again.nodes()).to.deep.equal([node]);
    const refused = await openRawLeaf({
      url: controller.websocketUrl,
      jwt,
      key,
      serverName: "n-late",
    }).then(
      () => "accepted",
      (error: Error) => error.message,
    );
    expect(refused).to.match(/authori|revoked/i);
    const gone = await system.request(`$SYS.REQ.ACCOUNT.${removed}.CLAIMS.LOOKUP`);
    expect(gone.data.length).to.equal(0);
    again.stop();
  });

  it("tells a controller that starts again who is connected already", async () => {
    await using controller = await startController();
    const node = await joinNode(controller);
    const events: LinkEvent[] = [];
    const again = await openHubLink({
      system: controller.system,
      authority: controller.authority,
      recordsFolder: join(controller.folder, "accounts"),
      clock: systemClock,
      log: logLines().log,
      onEvent: (event) => events.push(event),
      renewal: () => null,
    });
    expect(events).to.deep.equal(
      controller.events.filter(({ type }) => type === "connected").slice(0, 1),
    );
    expect(again.connections(node.key)).to.have.length(1);
    again.stop();
    await node[Symbol.asyncDispose]();
  });
});
