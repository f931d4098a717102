import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { decode, encodeAccount, encodeGeneric } from "@nats-io/jwt";
import { createAccount, createOperator, createUser } from "@nats-io/nkeys";
import type { NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import fc from "fast-check";
import { systemClock } from "../../../host/clock.ts";
import type { NodeKey } from "../../../protocol/ids.ts";
import { openDocuments } from "../../../transport/documents.ts";
import type { AccountSigner } from "../../../transport/keys/authority.ts";
import { controllerAccount } from "../../../transport/keys/claims.ts";
import { openOperatorKey } from "../../../transport/keys/handed-keys.ts";
import type { NoAuthority } from "../../../transport/link/accounts.ts";
import { type HubLink, openHubLink } from "../../../transport/link/hub.ts";
import { type SystemApi, systemApi } from "../../../transport/link/system-api.ts";
import {
  lacksOfAccount,
  lacksOfAuthority,
  lacksOfClaims,
  lacksOfClocks,
  lacksOfServers,
  refuseOldServers,
  systemServers,
} from "../../../transport/link/vetting.ts";
import type { LinkEvent } from "../../../transport/link/watch.ts";
import { createWorkerLife } from "../../../transport/link/worker-life.ts";
import { createRpcCaller } from "../../../transport/rpc/caller.ts";
import { relinkHandlers } from "../../../transport/rpc/relink.ts";
import { serveNodeRequests } from "../../../transport/rpc/requests.ts";
import {
  type ExternalCluster,
  type ExternalNats,
  memoryResolver,
  type NatsOperator,
  startExternalCluster,
  startExternalNats,
} from "../../support/external-nats.ts";
import { startNode } from "../../support/link-fleet.ts";
import { logLines } from "../../support/log-lines.ts";
import type { TestServer } from "../../support/nats.ts";
import { openRawLeaf } from "../../support/raw-leaf.ts";
import { refusalOf } from "../../support/refusal.ts";

const KEY_FLAG = "--nats-operator-key";
const HOUR_MS = 3_600_000;

function signerOf({ operatorKey, controllerAccount }: NatsOperator): AccountSigner {
  return openOperatorKey({ path: operatorKey, name: KEY_FLAG }, controllerAccount);
}

describe("what somebody else's NATS has to have for nodes", () => {
  describe("in the controller's account", () => {
    it("is room for 8 MiB in one message", () => {
      const limited = (payload: number) =>
        lacksOfClaims({ ...controllerAccount(), limits: { payload } });
      expect(limited(8_388_608)).to.deep.equal([]);
      expect(limited(-1)).to.deep.equal([]);
      expect(limited(8_388_607)).to.deep.equal([
        "the controller's account has payload limit 8388607, and nodes need 8388608",
      ]);
      expect(limited(0)).to.have.length(1);
    });

    const full = controllerAccount().exports ?? [];

    it("is nothing more than what lemon's own account says, whatever else is exported", () => {
      expect(lacksOfClaims(controllerAccount())).to.deep.equal([]);
      const more = { name: "x", subject: "x.>", type: "stream" };
      expect(lacksOfClaims({ exports: [more, ...full, more] })).to.deep.equal([]);
    });

    it("is named one by one where it is missing", () => {
      const stream =
        "the controller's account does not export the stream node.*.> with account_token_position 2";
      const service =
        "the controller's account does not export the service ctl.*.> with account_token_position 2";
      expect(lacksOfClaims({ exports: full.slice(1) })).to.deep.equal([stream]);
      expect(lacksOfClaims({ exports: full.slice(0, 1) })).to.deep.equal([service]);
      for (const claims of [{}, { exports: null }, { exports: [null, 1, "x"] }, null, "x"]) {
        expect(lacksOfClaims(claims)).to.deep.equal([stream, service]);
      }
    });

    it("is missing when any part of an export is another", () => {
      const changes: readonly Readonly<Record<string, unknown>>[] = [
        { subject: "node.>" },
        { subject: "ctl.*.*" },
        { type: "service" },
        { type: "stream" },
        { account_token_position: 1 },
        { account_token_position: undefined },
        { token_req: true },
      ];
      fc.assert(
        fc.property(fc.constantFrom(0, 1), fc.constantFrom(...changes), (index, change) => {
          const exports = full.map((one, at) => (at === index ? { ...one, ...change } : one));
          const [name, value] = Object.entries(change)[0] ?? [];
          const same = Reflect.get(full[index] ?? {}, name ?? "") === value;
          expect(lacksOfClaims({ exports })).to.have.length(same ? 0 : 1);
        }),
      );
    });
  });

  it("is a server of the floor's version each", async () => {
    const servers = ["2.12.7", "2.15.0", "2.12.6", "2.11.16"].map((version, index) => ({
      name: `s${index}`,
      version,
      maxPayloadBytes: 0,
      jetStreamPeers: 1,
      clockMs: null,
    }));
    refuseOldServers(servers.slice(0, 2));
    const refused = await refusalOf(() => refuseOldServers(servers));
    expect([refused.code, refused.message]).to.deep.equal([
      "nats_server_too_old",
      "The NATS server s2 runs 2.12.6; lemon needs at least 2.12.7 on every server",
    ]);
    const unknown = { name: "", version: "", maxPayloadBytes: 0, jetStreamPeers: 1, clockMs: null };
    expect((await refusalOf(() => refuseOldServers([unknown]))).code).to.equal(
      "nats_server_too_old",
    );
  });

  it("is room for 8 MiB in one message", () => {
    const server = { name: "s1", version: "2.15.0", jetStreamPeers: 1, clockMs: null };
    expect(lacksOfServers([{ ...server, maxPayloadBytes: 8_388_608 }])).to.deep.equal([]);
    expect(lacksOfServers([{ ...server, maxPayloadBytes: 8_388_607 }])).to.deep.equal([
      "the NATS server s1 has max_payload 8388607, and nodes need 8388608",
    ]);
  });

  it("is a clock within five minutes of the controller's, by which credentials end", () => {
    const nowMs = 1_000_000;
    const at = (aheadMs: number | null) =>
      lacksOfClocks(
        [
          {
            name: "s1",
            version: "2.15.0",
            maxPayloadBytes: 0,
            jetStreamPeers: 1,
            clockMs: aheadMs === null ? null : nowMs + aheadMs,
          },
        ],
        nowMs,
      );
    for (const fine of [null, 0, 300_000, -300_000]) expect(at(fine)).to.deep.equal([]);
    expect(at(300_001)).to.deep.equal([
      "the clock of the NATS server s1 is 5 minutes ahead of the controller's",
    ]);
    expect(at(-7_200_000)).to.deep.equal([
      "the clock of the NATS server s1 is 120 minutes behind the controller's",
    ]);
  });

  describe("asked of a real one", () => {
    let nats: ExternalNats | null = null;
    afterEach(() => nats?.[Symbol.asyncDispose]());

    const start = async (
      options: Parameters<typeof startExternalNats>[0] = {},
      as: "system" | "controller" = "system",
    ): Promise<{ api: SystemApi; operator: NatsOperator }> => {
      nats = await startExternalNats(options);
      const { operator, server } = nats;
      return { api: systemApi(await operator.connect(server, as)), operator };
    };
    it("lacks nothing when it is prepared, and is not changed by the question", async () => {
      const { api, operator } = await start();
      expect(await lacksOfAccount(api, operator.controllerAccount)).to.deep.equal([]);
      expect(await lacksOfAuthority(api, signerOf(operator), KEY_FLAG)).to.deep.equal([]);
      const servers = await systemServers(api, "--nats-sys-creds");
      expect(lacksOfServers(servers)).to.deep.equal([]);
      expect(lacksOfClocks(servers, Date.now())).to.deep.equal([]);
      expect(lacksOfClocks(servers, Date.now() - 3_600_000)).to.have.length(1);
      expect((await api.servers()).map(({ jetStreamPeers }) => jetStreamPeers)).to.deep.equal([1]);
      expect(await api.accountClaims(operator.controllerAccount)).not.to.equal(null);
      expect(await api.accountClaims(operator.systemAccount)).not.to.equal(null);
    });

    it("lacks its exports when the account is a plain one", async () => {
      const { api, operator } = await start({ claims: { limits: { conn: -1, subs: -1 } } });
      expect(await lacksOfAccount(api, operator.controllerAccount)).to.have.length(2);
    });

    it("refuses another operator's key, whose accounts it would take and let nobody use", async () => {
      const { api, operator } = await start();
      const other = createOperator();
      const signer: AccountSigner = {
        controllerAccount: operator.controllerAccount,
        signAccount: (name, key, claims) => encodeAccount(name, key, claims, { signer: other }),
        signDeletion: (accounts) => encodeGeneric("delete", other, "generic", { accounts }),
      };
      const refused = await refusalOf(() => lacksOfAuthority(api, signer, KEY_FLAG));
      expect([refused.code, refused.message]).to.deep.equal([
        "invalid_request",
        "--nats-operator-key is no key of the operator of this NATS system",
      ]);
      const key = createAccount().getPublicKey();
      await api.updateAccount(await signer.signAccount("node", key, {}));
    });

    it("says when it lets no account be deleted", async () => {
      const { api, operator } = await start({
        configure: (config) => config.replace("allow_delete: true", "allow_delete: false"),
      });
      expect(await lacksOfAuthority(api, signerOf(operator), KEY_FLAG)).to.deep.equal([
        "the NATS servers do not let accounts be deleted (resolver allow_delete: true)",
      ]);
    });

    it("says when its accounts stand in its configuration", async () => {
      const { api, operator } = await start({ configure: memoryResolver });
      const lacks = ["the NATS servers keep no accounts that can be changed (resolver type: full)"];
      expect(await lacksOfAuthority(api, signerOf(operator), KEY_FLAG)).to.deep.equal(lacks);
      expect(await lacksOfAccount(api, operator.controllerAccount)).to.deep.equal(lacks);
    });

    it("refuses credentials that are not its system account's", async () => {
      const { api } = await start({}, "controller");
      const refused = await refusalOf(() => systemServers(api, "--nats-sys-creds"));
      expect([refused.code, refused.message]).to.deep.equal([
        "invalid_request",
        "--nats-sys-creds holds credentials of another account than the system account",
      ]);
    });
  });
});

describe("the link to nodes on somebody else's NATS", () => {
  let nats: ExternalNats;
  let system: NatsConnection;
  let recordsFolder: string;
  const links: HubLink[] = [];

  beforeEach(async () => {
    nats = await startExternalNats();
    system = await nats.operator.connect(nats.server, "system");
    recordsFolder = join(nats.operator.folder, "accounts");
  });
  afterEach(async () => {
    for (const link of links.splice(0)) link.stop();
    await nats[Symbol.asyncDispose]();
  });

  const open = async (
    authority: AccountSigner | NoAuthority,
    withSystem: NatsConnection | null = system,
  ): Promise<HubLink> => {
    const link = await openHubLink({
      system: withSystem,
      authority,
      recordsFolder,
      keepsStores: false,
      clock: systemClock,
      log: logLines().log,
      onEvent: () => undefined,
      renewal: () => null,
    });
    links.push(link);
    return link;
  };
  const full = (): Promise<HubLink> => open(signerOf(nats.operator));
  const WHY = "No account can be changed on this NATS system: --nats-operator-key is not given";

  it("is let in with an account that its operator's key signed", async () => {
    const link = await full();
    const node = await link.provision();
    const life = createWorkerLife();
    const jwt = await link.issue(node, life.link.getPublicKey(), { expiresInMs: HOUR_MS });
    const leaf = { url: nats.websocketUrl, jwt, key: life.link, serverName: life.serverName };
    (await openRawLeaf(leaf)).close();
  });

  for (const [what, withSystem] of [
    ["the operator's key", true],
    ["the system account either", false],
  ] as const) {
    describe(`without ${what}`, () => {
      const less = (): Promise<HubLink> => open({ missing: WHY }, withSystem ? system : null);

      it("makes no account, says why, and leaves nothing behind", async () => {
        const link = await less();
        const refused = await refusalOf(() => link.provision());
        expect([refused.code, refused.message, refused.mutationMayHaveApplied]).to.deep.equal([
          "unavailable",
          WHY,
          false,
        ]);
        expect(link.nodes()).to.deep.equal([]);
        links.push(link);
        expect((await full()).nodes()).to.deep.equal([]);
      });

      it("goes on giving credentials to nodes whose account is there", async () => {
        const node = await (await full()).provision();
        const link = await less();
        const life = createWorkerLife();
        const jwt = await link.issue(node, life.link.getPublicKey(), { expiresInMs: HOUR_MS });
        const leaf = { url: nats.websocketUrl, jwt, key: life.link, serverName: life.serverName };
        (await openRawLeaf(leaf)).close();
      });

      for (const change of ["revoke", "remove"] as const) {
        it(`records what it can not tell the hub (${change}), and tells it with the key at the next start`, async () => {
          const before = await full();
          const node = await before.provision();
          before.stop();
          const userKey = createUser().getPublicKey();
          const link = await less();
          const refused = await refusalOf(() =>
            change === "revoke" ? link.revoke(node, [userKey]) : link.remove(node),
          );
          expect([refused.code, refused.mutationMayHaveApplied]).to.deep.equal([
            "unavailable",
            true,
          ]);
          expect(refused.message).to.equal(
            `It is recorded, and the hub is told once that is possible. ${WHY}`,
          );
          link.stop();
          const claims = (): Promise<unknown> => systemApi(system).accountClaims(node);
          const held = JSON.stringify(await claims());
          expect(held).not.to.contain(userKey);

          await full();
          if (change === "revoke") expect(JSON.stringify(await claims())).to.contain(userKey);
          else expect(await claims()).to.equal(null);
        });
      }
    });
  }
});

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
