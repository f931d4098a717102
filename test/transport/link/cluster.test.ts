/** Proves the node link through three servers of a NATS cluster. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { decode } from "@nats-io/jwt";
import { createUser } from "@nats-io/nkeys";
import type { NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import { systemClock } from "../../../host/clock.ts";
import type { NodeKey } from "../../../protocol/ids.ts";
import { openDocuments } from "../../../transport/documents.ts";
import { type HubLink, openHubLink } from "../../../transport/link/hub.ts";
import { systemApi } from "../../../transport/link/system-api.ts";
import type { LinkEvent } from "../../../transport/link/watch.ts";
import { createWorkerLife } from "../../../transport/link/worker-life.ts";
import { createRpcCaller } from "../../../transport/rpc/caller.ts";
import { relinkHandlers } from "../../../transport/rpc/relink.ts";
import { serveNodeRequests } from "../../../transport/rpc/requests.ts";
import {
  type ExternalCluster,
  signerOf,
  startExternalCluster,
} from "../../support/external-nats.ts";
import { startNode } from "../../support/link-fleet.ts";
import { logLines } from "../../support/log-lines.ts";
import type { TestServer } from "../../support/nats.ts";

const HOUR_MS = 3_600_000;

describe("the link to nodes through a cluster", () => {
  let cluster: ExternalCluster;
  let system: NatsConnection;
  let controller: NatsConnection;
  let link: HubLink;
  const events: LinkEvent[] = [];
  const heard = new Set<() => void>();
  const stops: (() => void)[] = [];
  const log = logLines();

  before(async () => {
    cluster = await startExternalCluster(3);
    const { operator } = cluster;
    const home = serverAt(0);
    system = await operator.connect(home, "system");
    controller = await operator.connect(home, "controller");
    const caller = createRpcCaller({ connection: controller, clock: systemClock });
    const handlers = relinkHandlers(caller);
    const requests = serveNodeRequests({ connection: controller, handlers, log: log.log });
    link = await openHubLink({
      system,
      authority: signerOf(operator),
      recordsFolder: join(operator.folder, "accounts"),
      keepsStores: false,
      clock: systemClock,
      log: log.log,
      onEvent(event) {
        events.push(event);
        for (const hear of [...heard]) hear();
      },
      renewal: (node) => caller.renewal(node),
    });
    stops.push(
      () => requests.stop(),
      () => caller.stop(),
      () => link.stop(),
    );
  });
  after(async () => {
    for (const stop of stops) stop();
    await cluster[Symbol.asyncDispose]();
  });

  function serverAt(index: number): TestServer {
    const server = cluster.servers[index];
    if (server === undefined) throw new Error("no such server");
    return server;
  }
  function event(wanted: (event: LinkEvent) => boolean): Promise<LinkEvent> {
    return new Promise((resolve) => {
      const look = (): void => {
        const found = events.find(wanted);
        if (found === undefined) return;
        heard.delete(look);
        resolve(found);
      };
      heard.add(look);
      look();
    });
  }

  it("knows each of its servers, and how many keep JetStream's data", async () => {
    const servers = await systemApi(system).servers();
    expect(servers.map(({ name }) => name).sort()).to.deep.equal(["s0", "s1", "s2"]);
    expect(servers.map(({ jetStreamPeers }) => jetStreamPeers)).to.deep.equal([3, 3, 3]);
  });

  it("sees connections at every server", async () => {
    const { operator } = cluster;
    const there = await operator.connect(serverAt(2), "controller");
    const api = systemApi(system);
    const seen = await api.connections(operator.controllerAccount);
    const servers = new Set(seen.map(({ id }) => id.split(":")[0]));
    expect(new Set(seen.map(({ account }) => account))).to.deep.equal(
      new Set([operator.controllerAccount]),
    );
    const all = (await api.connections()).map(({ account }) => account);
    expect(all).to.include.members([operator.controllerAccount, operator.systemAccount]);
    expect(servers).to.deep.equal(
      new Set([serverAt(0).child.serverId, serverAt(2).child.serverId]),
    );
    await there.close();
  });

  it("has every server told by the time that an account, a revocation or a removal is", async () => {
    const node = await link.provision();
    const held = (): string[] =>
      cluster.servers.map((_, index) => {
        const file = join(cluster.operator.folder, `jwt-${index}`, `${node}.jwt`);
        return existsSync(file) ? JSON.stringify(decode(readFileSync(file, "utf8")).nats) : "";
      });
    expect(held().filter((claims) => claims.includes(`node.${node}.>`))).to.have.length(3);
    const userKey = createUser().getPublicKey();
    await link.revoke(node, [userKey]);
    expect(held().filter((claims) => claims.includes(userKey))).to.have.length(3);
    await link.remove(node);
    expect(held()).to.deep.equal(["", "", ""]);
  });

  it("keeps the controller's documents on three servers", async () => {
    const documents = await openDocuments({
      connection: controller,
      bucket: "test-documents",
      parse: (stored) => stored,
      replicas: 3,
    });
    await documents.create("a", 1);
    expect((await documents.get("a"))?.value).to.equal(1);
  });

  it("moves to another server when its own is killed, and nobody is accused of sharing its credentials", async () => {
    const node = await link.provision();
    const life = createWorkerLife();
    const userKey = life.link.getPublicKey();
    const jwt = await link.issue(node, userKey, { expiresInMs: HOUR_MS });
    const victim = serverAt(1);
    const url = `nats://127.0.0.1:${victim.child.ports.leaf}`;
    await using worker = await startNode({ key: node, life, jwt, url, log });
    const isAt = (seen: LinkEvent, server: TestServer): boolean =>
      seen.type === "connected" &&
      seen.connection.userKey === userKey &&
      seen.connection.id.startsWith(server.child.serverId);
    await event((seen) => isAt(seen, victim));
    await victim.kill();
    await event((seen) => isAt(seen, serverAt(0)) || isAt(seen, serverAt(2)));
    await worker.ready();
    // What the dead server could not tell is found out before anybody is suspected.
    await event((seen) => seen.type === "disconnected" && seen.connection.userKey === userKey);
    expect(events.filter(({ type }) => type === "shared")).to.deep.equal([]);
    expect(link.connections(node as NodeKey)).to.have.length(1);
    await link.issue(node, userKey, { expiresInMs: HOUR_MS });
  });
});
