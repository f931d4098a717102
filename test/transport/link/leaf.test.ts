import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { nkeyAuthenticator } from "@nats-io/transport-node";
import { expect } from "chai";
import fc from "fast-check";
import { LemonError } from "../../../protocol/errors.ts";
import { createLeafLink, leafRemoteUrl } from "../../../transport/link/leaf.ts";
import { createWorkerLife } from "../../../transport/link/worker-life.ts";
import { requestSubject } from "../../../transport/rpc/subjects.ts";
import { FakeClock, settle } from "../../support/fake-clock.ts";
import {
  expiredJwt,
  joinNode,
  silent,
  startController,
  type TestController,
  type TestNode,
} from "../../support/link-fleet.ts";
import { startNodeServer } from "../../support/nats.ts";
import { refusalOf } from "../../support/refusal.ts";
import { tcpProxy } from "../../support/tcp-proxy.ts";
import { tempFolder } from "../../support/temp-folder.ts";

const HOUR_MS = 3_600_000;
/** Ends are in whole seconds: this is between two and three. */
const SOON_MS = 3_000;

describe("the URL of a leaf remote", () => {
  const cases: readonly (readonly [controller: string, path: string, url: string])[] = [
    ["ws://127.0.0.1:4040/ws", "", "ws://127.0.0.1:4040"],
    ["ws://controller/ws", "", "ws://controller:80"],
    ["wss://controller/ws", "", "wss://controller:443"],
    ["wss://controller:8443/lemon/ws", "", "wss://controller:8443/lemon"],
    ["wss://controller/a/b/ws/", "", "wss://controller:443/a/b"],
    ["wss://controller/lemon/ws", "/", "wss://controller:443/lemon"],
    ["wss://controller/lemon/ws", "link", "wss://controller:443/lemon/link"],
    ["ws://[::1]:4040/ws", "", "ws://[::1]:4040"],
    ["WSS://Controller.Example/ws", "", "wss://controller.example:443"],
  ];
  for (const [controller, path, url] of cases) {
    it(`is ${url} for ${controller}${path === "" ? "" : ` and ${path}`}`, () => {
      expect(leafRemoteUrl(controller, path)).to.equal(url);
    });
  }

  it("is refused for what is no controller's URL, or holds credentials, a query or a fragment", () => {
    for (const url of [
      "",
      "controller",
      "http://controller/ws",
      "nats://controller:4222",
      "ws://user:secret@controller/ws",
      "ws://user@controller/ws",
      "ws://controller/ws?token=secret",
      "ws://controller/ws#x",
    ]) {
      const attempt = (): string => leafRemoteUrl(url);
      expect(attempt, url).to.throw(LemonError).with.property("code", "invalid_request");
      expect(attempt, url).not.to.throw(/secret/);
    }
  });

  it("always names a port, and never ends in a slash", () => {
    fc.assert(
      fc.property(fc.webUrl({ withFragments: false }), (web) => {
        const url = leafRemoteUrl(`${web.replace(/^http/, "ws")}/ws`);
        expect(url).to.match(/^wss?:\/\/[^/]+:\d+(\/|$)/);
        expect(url).not.to.match(/\/$/);
      }),
    );
  });
});

describe("a worker life", () => {
  it("shares no key and no name with any other", () => {
    const [one, other] = [createWorkerLife(), createWorkerLife()];
    const names = [one, other].flatMap(({ serverName, link, seal, worker, store, system }) => [
      serverName,
      ...[link, seal, worker, store, system].map((pair) => pair.getPublicKey()),
    ]);
    expect(new Set(names).size).to.equal(12);
    expect(one.serverName).to.match(/^[A-Za-z0-9_-]{1,64}$/);
    expect(one.link.getPublicKey()).to.match(/^U/);
    expect(one.seal.getPublicKey()).to.match(/^X/);
  });

  it("opens what is sealed to it, and nothing once it has ended", () => {
    const [sender, life] = [createWorkerLife().seal, createWorkerLife()];
    const sealed = sender.seal(Buffer.from("value"), life.seal.getPublicKey());
    const open = () => life.seal.open(sealed, sender.getPublicKey());
    expect(Buffer.from(open() ?? []).toString()).to.equal("value");
    life.end();
    expect(open).to.throw();
    expect(() => life.link.sign(Buffer.from("x"))).to.throw();
  });
});

describe("the node's side of the link", () => {
  let controller: TestController;
  before(async () => {
    controller = await startController();
  });
  after(() => controller[Symbol.asyncDispose]());

  const call = (node: TestNode, method: string, params: unknown = null): Promise<unknown> =>
    controller.caller.call(node.key, {
      method,
      params,
      generation: 1,
      deadlineMs: 30_000,
      mutation: true,
    });

  const renewed = (node: TestNode, expiresInMs = HOUR_MS): Promise<string> =>
    controller.link.issue(node.key, node.life.link.getPublicKey(), { expiresInMs });

  const lost = (node: TestNode) =>
    controller.events.filter(
      (event) => event.type === "disconnected" && event.connection.account === node.key,
    );

  it("keeps credentials in private files, under the other of two names each time, and leaves none", async () => {
    await using node = await joinNode(controller);
    const file = (): string => node.leaf.credentialsFile;
    const folder = dirname(file());
    expect(statSync(folder).mode & 0o777).to.equal(0o700);
    const names: string[] = [];
    for (let renewal = 0; renewal < 3; renewal++) {
      names.push(file().slice(folder.length + 1));
      expect(statSync(file()).mode & 0o777).to.equal(0o600);
      await node.renew(await renewed(node));
    }
    expect(names).to.deep.equal(["a.creds", "b.creds", "a.creds"]);
    await node.leaf.dispose();
    expect(readdirSync(folder)).to.deep.equal([]);
  });

  it("knows by proof whether it is up: not with a hub that is away, again when it is back", async () => {
    await using own = await startController();
    await using node = await joinNode(own);
    expect(node.leaf.up).to.equal(true);
    await own.hub.kill();
    await node.down();
    expect(node.leaf.up).to.equal(false);
    await own.hub.restart();
    await node.leaf.whenUp(30_000);
  });

  it("is not up while nobody lets it in, and says so in time", async () => {
    const clock = new FakeClock();
    using folder = tempFolder();
    const life = createWorkerLife();
    const key = await controller.link.provision();
    const leaf = createLeafLink({ folder: join(folder.path, "link"), key: life.link, clock });
    await leaf.install(await expiredJwt(controller, key, life.link.getPublicKey()));
    await using server = await startNodeServer({
      sysUser: life.system,
      link: {
        account: key,
        workerUser: life.worker.getPublicKey(),
        url: controller.websocketUrl,
        credentialsFile: leaf.credentialsFile,
      },
    });
    await leaf.follow(await server.connectSys(), () => expect.fail("a link stands"));
    expect(leaf.up).to.equal(false);
    const waiting = refusalOf(() => leaf.whenUp(1_000));
    await clock.advance(1_000);
    expect((await waiting).code).to.equal("node_offline");
  });

  describe("renews its credentials", () => {
    it("before they end, and nothing is cut, refused or lost by it, however much is under way", async () => {
      await using node = await joinNode(controller, { handlers: { echo: (params) => params } });
      let stop = false;
      let answered = 0;
      const callers = Array.from({ length: 32 }, async (_, at) => {
        for (let turn = 0; !stop; turn++) {
          expect(await call(node, "echo", [at, turn])).to.deep.equal([at, turn]);
          answered += 1;
        }
      });
      const counts: number[] = [];
      for (let renewal = 0; renewal < 5; renewal++) {
        const jwt = await renewed(node);
        await node.renew(jwt);
        expect(readFileSync(node.leaf.credentialsFile, "utf8")).to.include(jwt);
        counts.push(answered);
      }
      stop = true;
      await Promise.all(callers);
      expect(counts).to.deep.equal(counts.toSorted((a, b) => a - b));
      expect(answered).to.be.above(32);
      expect(lost(node)).to.deep.equal([]);
    });

    it("and a call that runs all the while is answered", async () => {
      const arrived = Promise.withResolvers<void>();
      const release = Promise.withResolvers<string>();
      await using node = await joinNode(controller, {
        handlers: {
          run() {
            arrived.resolve();
            return release.promise;
          },
        },
      });
      const run = call(node, "run");
      await arrived.promise;
      await node.renew(await renewed(node));
      release.resolve("done");
      expect(await run).to.equal("done");
    });

    it("and outlives the end of those it had", async () => {
      await using node = await joinNode(controller, { handlers: { ping: () => "pong" } });
      const other = await joinNode(controller);
      const ending = [await renewed(node, SOON_MS), await renewed(other, SOON_MS)];
      await Promise.all([node, other].map((one, at) => one.renew(ending[at] ?? "")));
      await node.renew(await renewed(node));
      // The other's cut marks the moment at which the first would have come.
      await controller.event(
        (event) => event.type === "disconnected" && event.connection.account === other.key,
      );
      expect(await call(node, "ping")).to.equal("pong");
      expect(lost(node)).to.deep.equal([]);
      await other[Symbol.asyncDispose]();
    });

    it("also after they ended: the file that it reads at each attempt heals it", async () => {
      await using node = await joinNode(controller, { handlers: { ping: () => "pong" } });
      await node.renew(await renewed(node, SOON_MS));
      await node.down();
      await node.leaf.install(await renewed(node));
      await node.leaf.whenUp(30_000);
      await node.ready();
      expect(await call(node, "ping")).to.equal("pong");
    });

    it("also when the hub dies in the middle of it and comes back: no call hangs, and nobody is accused", async () => {
      await using own = await startController();
      await using node = await joinNode(own, { handlers: { ping: () => "pong" } });
      const jwt = await own.link.issue(node.key, node.life.link.getPublicKey(), {
        expiresInMs: 3_600_000,
      });
      const paused = Promise.withResolvers<void>();
      own.connection.subscribe(requestSubject(node.key, "pause"), {
        callback: () => paused.resolve(),
      });
      await own.connection.flush();
      const renewal = node.renew(jwt);
      await paused.promise;
      await own.hub.kill();
      await own.hub.restart();
      // A machine that takes longer than the renewal waits says so, and the link comes back all the same.
      await renewal.catch((error: unknown) => {
        expect(error).to.include({ code: "node_offline" });
      });
      await node.leaf.whenUp(30_000);
      await node.ready();
      const ping = { method: "ping", params: null, generation: 1, mutation: false };
      expect(await own.caller.call(node.key, { ...ping, deadlineMs: 30_000 })).to.equal("pong");
      expect(readFileSync(node.leaf.credentialsFile, "utf8")).to.include(jwt);
      expect(own.events.filter(({ type }) => type === "shared")).to.deep.equal([]);
    });

    it("and says so when the link is not back within 3 s", async () => {
      await using own = await startController();
      const clock = new FakeClock();
      await using node = await joinNode(own, { clock, waitForLink: false });
      await node.ready();
      await own.hub.kill();
      await node.down();
      const outcome = refusalOf(() => node.renew("a.new.jwt"));
      while (clock.pending === 0) await settle();
      await clock.advance(2_999);
      expect(clock.pending).to.equal(1);
      await clock.advance(1);
      expect((await outcome).code).to.equal("node_offline");
    });
  });

  describe("is cut", () => {
    it("with its worker: the next call finds nobody, and nothing is delivered", async () => {
      await using node = await joinNode(controller, { handlers: { ping: () => "pong" } });
      expect(await call(node, "ping")).to.equal("pong");
      await node.connection.close();
      // The leaf takes its interest back a moment after its client has gone.
      await silent(controller, node.key);
      expect(await refusalOf(() => call(node, "ping"))).to.include({
        code: "node_offline",
        mutationMayHaveApplied: false,
      });
    });

    it("without the hub's notice: what was under way is settled when the leaf is back, over another line", async () => {
      await using line = await tcpProxy(controller.hub.child.ports.websocket);
      const arrived = Promise.withResolvers<void>();
      await using node = await joinNode(controller, {
        url: line.url.replace("nats://", "ws://"),
        handlers: {
          run() {
            arrived.resolve();
            return new Promise(() => undefined);
          },
          ping: () => "pong",
        },
      });
      const run = refusalOf(() => call(node, "run"));
      await arrived.promise;
      line.holdRequests();
      line.cut();
      expect((await run).code).to.equal("link_lost");
      await node.ready();
      expect(await call(node, "ping")).to.equal("pong");
    });

    it("with its leaf: every call under way is settled at once, as uncertain", async () => {
      let arrived = 0;
      const all = Promise.withResolvers<void>();
      await using node = await joinNode(controller, {
        handlers: {
          hang() {
            arrived += 1;
            if (arrived === 10) all.resolve();
            return new Promise(() => undefined);
          },
        },
      });
      const calls = Array.from({ length: 10 }, () => refusalOf(() => call(node, "hang")));
      await all.promise;
      await node.server.kill();
      for (const { code, mutationMayHaveApplied } of await Promise.all(calls)) {
        expect([code, mutationMayHaveApplied]).to.deep.equal(["link_lost", true]);
      }
    });
  });

  it("is replaced by a new leaf under the same name when the old one is frozen", async () => {
    await using node = await joinNode(controller, { handlers: { ping: () => "frozen" } });
    expect(await call(node, "ping")).to.equal("frozen");
    await node.server.freeze();
    await using replacement = await joinNode(controller, {
      key: node.key,
      life: node.life,
      handlers: { ping: () => "replaced" },
    });
    expect(await call(replacement, "ping")).to.equal("replaced");
    await controller.event((event) => lost(node).includes(event));
    expect(
      lost(node).map((event) => (event.type === "disconnected" ? event.remaining : null)),
    ).to.deep.equal([1]);
    await node.server.kill();
    expect(await call(replacement, "ping")).to.equal("replaced");
    expect(controller.events.filter(({ type }) => type === "shared")).to.deep.equal([]);
  });

  it("lets nobody on the machine in who has none of its keys, and its worker no further than its own subjects", async () => {
    await using node = await joinNode(controller);
    const anonymous = await node.server.connect({ reconnect: false }).then(
      () => "let in",
      (error: Error) => error.message,
    );
    expect(anonymous).to.match(/authori/i);
    const stranger = await node.server
      .connect({
        reconnect: false,
        authenticator: nkeyAuthenticator(createWorkerLife().worker.getSeed()),
      })
      .then(
        () => "let in",
        (error: Error) => error.message,
      );
    expect(stranger).to.match(/authori/i);
    const denied = node.connection.subscribe("node.>");
    await node.connection.flush();
    expect(String(await denied.closed)).to.match(/permissions violation/i);
  });
});
