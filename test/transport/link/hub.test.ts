/** Proves the controller's side of the node link: accounts, credentials, revocations, removals. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import { type Account, decode, type User } from "@nats-io/jwt";
import { createUser, type KeyPair } from "@nats-io/nkeys";
import { jwtAuthenticator } from "@nats-io/transport-node";
import { expect } from "chai";
import type { NodeKey } from "../../../protocol/ids.ts";
import type { LinkEvent } from "../../../transport/link/watch.ts";
import { inboxPrefix } from "../../../transport/rpc/subjects.ts";
import {
  hubLinkAt,
  joinNode,
  startController,
  type TestController,
} from "../../support/link-fleet.ts";
import { openRawLeaf } from "../../support/raw-leaf.ts";
import { refusalOf } from "../../support/refusal.ts";

const HOUR_MS = 3_600_000;
const userKey = (): string => createUser().getPublicKey();

describe("the controller's side of the node link", () => {
  let controller: TestController;
  before(async () => {
    controller = await startController();
  });
  after(() => controller[Symbol.asyncDispose]());

  const ping = (node: NodeKey): Promise<unknown> =>
    controller.caller.call(node, {
      method: "ping",
      params: null,
      generation: 1,
      deadlineMs: 30_000,
      mutation: false,
    });

  const disconnected = (node: NodeKey) =>
    controller.event(
      (event): event is Extract<LinkEvent, { type: "disconnected" }> =>
        event.type === "disconnected" && event.connection.account === node,
    );

  /** Why the hub lets nobody in with these. */
  const refusedLink = (jwt: string, key: KeyPair): Promise<string> =>
    openRawLeaf({ url: controller.websocketUrl, jwt, key, serverName: "n-refused" }).then(
      () => "accepted",
      (error: Error) => error.message,
    );

  /** The account as the hub holds it. */
  async function heldBy(hub: TestController, node: NodeKey): Promise<Partial<Account> | null> {
    const answer = await hub.system.request(`$SYS.REQ.ACCOUNT.${node}.CLAIMS.LOOKUP`);
    return answer.data.length === 0 ? null : decode<Account>(answer.string()).nats;
  }

  describe("an account", () => {
    it("has exactly the limits, imports and rights of a node", async () => {
      const node = await controller.link.provision();
      const account = await heldBy(controller, node);
      expect(account?.limits).to.deep.equal({
        subs: 500,
        data: -1,
        payload: -1,
        conn: 2,
        leaf: 2,
        imports: 2,
        exports: 0,
        wildcards: true,
      });
      expect(
        account?.imports?.map(({ subject, type, account: of }) => [subject, type, of]),
      ).to.deep.equal([
        [`node.${node}.>`, "stream", controller.authority.controllerAccount],
        [`ctl.${node}.>`, "service", controller.authority.controllerAccount],
      ]);
      expect(account?.exports).to.equal(undefined);
      const [scope, ...others] = account?.signing_keys ?? [];
      expect(others).to.deep.equal([]);
      expect(scope).to.deep.include({ kind: "user_scope", role: "worker" });
      expect(scope)
        .to.have.property("template")
        .that.deep.includes({
          pub: { allow: [`ctl.${node}.>`] },
          sub: { allow: [`node.${node}.>`] },
          bearer_token: false,
          allowed_connection_types: ["LEAFNODE", "LEAFNODE_WS"],
        });
    });

    it("leaves one private file, in which no seed but the scoped key's stands", async () => {
      const node = await controller.link.provision();
      const file = join(controller.folder, "accounts", `${node}.json`);
      expect(statSync(file).mode & 0o777).to.equal(0o600);
      const record: Record<string, unknown> = JSON.parse(readFileSync(file, "utf8"));
      expect(record).to.have.all.keys("version", "key", "kind", "seed", "revocations", "removed");
      expect(record["seed"]).to.match(/^SA/);
      expect(readFileSync(file, "utf8").match(/"S[A-Z2-7]{57}"/g)).to.have.length(1);
    });

    it("is not there, nor is a trace of it, when the hub does not take it", async () => {
      await using other = await startController();
      await other.hub.kill();
      const before = readdirSync(join(other.folder, "accounts"));
      expect((await refusalOf(() => other.link.provision())).code).to.equal("unavailable");
      expect(readdirSync(join(other.folder, "accounts"))).to.deep.equal(before);
      expect(other.link.nodes()).to.deep.equal([]);
    });
  });

  describe("credentials", () => {
    it("name the worker's own key and an end, and carry no rights of their own", async () => {
      const node = await controller.link.provision();
      const key = userKey();
      const beforeS = Math.floor(Date.now() / 1_000);
      const jwt = await controller.link.issue(node, key, { expiresInMs: HOUR_MS });
      const afterS = Math.ceil(Date.now() / 1_000);
      const claims = decode<User>(jwt);
      expect(claims.sub).to.equal(key);
      expect(claims.exp).to.be.within(beforeS + 3_600, afterS + 3_600);
      expect(claims.nats).to.deep.equal({ issuer_account: node, type: "user", version: 2 });
    });

    it("are given for a day at most, for no other kind of key, and for no account that is not there", async () => {
      const node = await controller.link.provision();
      const day = 24 * HOUR_MS;
      await controller.link.issue(node, userKey(), { expiresInMs: day });
      await controller.link.issue(node, userKey(), { expiresInMs: 1 });
      for (const [key, expiresInMs] of [
        [userKey(), day + 1],
        [userKey(), 0],
        [userKey(), -Date.now()],
        [userKey(), Number.NaN],
        [userKey(), null],
        ["", HOUR_MS],
        [node, HOUR_MS],
        [`${userKey().slice(0, -1)}!`, HOUR_MS],
        [userKey().replace(/.$/, (last) => (last === "A" ? "B" : "A")), HOUR_MS],
      ] as const) {
        expect(
          (await refusalOf(() => controller.link.issue(node, key, { expiresInMs }))).code,
        ).to.equal("invalid_request");
      }
      const nobody = userKey().replace("U", "A") as NodeKey;
      expect(
        (await refusalOf(() => controller.link.issue(nobody, userKey(), { expiresInMs: HOUR_MS })))
          .code,
      ).to.equal("node_not_found");
    });

    it("are cut within about a second of their end", async () => {
      const node = await joinNode(controller);
      const userKey = node.life.link.getPublicKey();
      await node.renew(await controller.link.issue(node.key, userKey, { expiresInMs: 3_000 }));
      expect((await disconnected(node.key)).reason).to.match(/expired/i);
      await node[Symbol.asyncDispose]();
    });
  });

  describe("a revocation", () => {
    it("cuts the key's link, settles its calls, and nobody else notices", async () => {
      const arrived = Promise.withResolvers<void>();
      const node = await joinNode(controller, {
        handlers: {
          ping() {
            arrived.resolve();
            return new Promise(() => undefined);
          },
        },
      });
      const bystander = await joinNode(controller, { handlers: { ping: () => "pong" } });
      const call = refusalOf(() => ping(node.key));
      await arrived.promise;
      await controller.link.revoke(node.key, [node.life.link.getPublicKey()]);
      expect((await disconnected(node.key)).reason).to.match(/revoked/i);
      expect((await call).code).to.equal("link_lost");
      expect(await ping(bystander.key)).to.equal("pong");
      expect(
        controller.events.filter(
          (event) => event.type === "disconnected" && event.connection.account === bystander.key,
        ),
      ).to.deep.equal([]);
      await node[Symbol.asyncDispose]();
      await bystander[Symbol.asyncDispose]();
    });

    it("is for good: the key gets nothing any more, while another of the same node does", async () => {
      const node = await controller.link.provision();
      const key = userKey();
      await controller.link.revoke(node, [key]);
      await controller.link.revoke(node, [key]);
      const again = () => controller.link.issue(node, key, { expiresInMs: HOUR_MS });
      expect((await refusalOf(again)).code).to.equal("node_revoked");
      expect(await controller.link.issue(node, userKey(), { expiresInMs: HOUR_MS })).to.be.a(
        "string",
      );
    });

    it("stands in the account in the end, whatever else is revoked at the same moment", async () => {
      const node = await controller.link.provision();
      const keys = Array.from({ length: 8 }, userKey);
      await Promise.all(keys.map((key) => controller.link.revoke(node, [key])));
      const account = await heldBy(controller, node);
      expect(Object.keys(account?.revocations ?? {}).sort()).to.deep.equal(keys.sort());
    });

    it("voids every credential of the key, also those that a clock far ahead dated", async () => {
      const node = await controller.link.provision();
      const key = createUser();
      const jwt = await controller.link.issue(node, key.getPublicKey(), {
        expiresInMs: 8 * HOUR_MS,
      });
      const url = controller.websocketUrl;
      const link = await openRawLeaf({ url, jwt, key, serverName: "n-early" });
      // Three hours before the credentials say that they were issued.
      const early = await hubLinkAt(controller, -3 * HOUR_MS);
      await early.revoke(node, [key.getPublicKey()]);
      await link.closed;
      expect(await refusedLink(jwt, key)).to.match(/authori|revoked/i);
      early.stop();
    });

    it("finds room, however many came before: beyond 64 all that was issued before is void", async () => {
      const node = await controller.link.provision();
      const key = createUser();
      const jwt = await controller.link.issue(node, key.getPublicKey(), { expiresInMs: HOUR_MS });
      const url = controller.websocketUrl;
      const link = await openRawLeaf({ url, jwt, key, serverName: "n-many" });
      const keys = Array.from({ length: 64 }, userKey);
      await controller.link.revoke(node, keys);
      await link.settled();

      const last = userKey();
      await controller.link.revoke(node, [last]);
      await link.closed;
      expect(await refusedLink(jwt, key)).to.match(/authori/i);
      const kept = Object.keys((await heldBy(controller, node))?.revocations ?? {});
      expect(kept).to.have.members([...keys.slice(-31), last]);
      for (const revoked of [keys.at(-31) ?? "", last]) {
        const again = () => controller.link.issue(node, revoked, { expiresInMs: HOUR_MS });
        expect((await refusalOf(again)).code).to.equal("node_revoked");
      }
      // Who was not meant has new credentials at the next renewal.
      const renewed = await controller.link.issue(node, key.getPublicKey(), {
        expiresInMs: HOUR_MS,
      });
      const back = await openRawLeaf({ url, jwt: renewed, key, serverName: "n-many" });
      back.close();
      await back.closed;
    });

    it("is refused for what is no key and for an account that is not there", async () => {
      const node = await controller.link.provision();
      expect((await refusalOf(() => controller.link.revoke(node, ["*"]))).code).to.equal(
        "invalid_request",
      );
      const nobody = userKey().replace("U", "A") as NodeKey;
      expect((await refusalOf(() => controller.link.revoke(nobody, [userKey()]))).code).to.equal(
        "node_not_found",
      );
    });
  });

  describe("a removal", () => {
    it("cuts the node, and leaves no account and no file", async () => {
      const node = await joinNode(controller, { handlers: { ping: () => "pong" } });
      expect(await ping(node.key)).to.equal("pong");
      await controller.link.remove(node.key);
      await disconnected(node.key);
      expect(controller.link.nodes()).not.to.include(node.key);
      expect(readdirSync(join(controller.folder, "accounts"))).not.to.include(`${node.key}.json`);
      expect(await heldBy(controller, node.key)).to.equal(null);
      expect(
        (
          await refusalOf(() =>
            controller.link.issue(node.key, userKey(), { expiresInMs: HOUR_MS }),
          )
        ).code,
      ).to.equal("node_not_found");
      await controller.link.remove(node.key);
      await node[Symbol.asyncDispose]();
    });
  });

  describe("the node in the controller's own process", () => {
    it("has an account like a node's, for a plain connection, with credentials that do not end", async () => {
      const node = await controller.link.provision("local-node");
      const user = createUser();
      const jwt = await controller.link.issue(node, user.getPublicKey(), { expiresInMs: null });
      expect(decode(jwt).exp).to.equal(undefined);
      const connection = await controller.hub.connect({
        authenticator: jwtAuthenticator(jwt, user.getSeed()),
        inboxPrefix: inboxPrefix(node),
      });
      const heard = Promise.withResolvers<string>();
      connection.subscribe(`node.${node}.rpc`, {
        callback: (_error, message) => heard.resolve(message.string()),
      });
      await connection.flush();
      controller.connection.publish(`node.${node}.rpc`, "call");
      expect(await heard.promise).to.equal("call");
      const denied = connection.subscribe("node.>");
      await connection.flush();
      expect(String(await denied.closed)).to.match(/permissions violation/i);
      expect(
        await refusalOf(() => jetstreamManager(connection).then(() => undefined)).catch(
          (error) => error,
        ),
      ).to.be.an("error");
    });

    it("has a store account with JetStream and without a way to the controller", async () => {
      const store = await controller.link.provision("local-store");
      const user = createUser();
      const jwt = await controller.link.issue(store, user.getPublicKey(), { expiresInMs: null });
      const connection = await controller.hub.connect({
        authenticator: jwtAuthenticator(jwt, user.getSeed()),
      });
      const jsm = await jetstreamManager(connection);
      await jsm.streams.add({ name: "KV_receipts", subjects: ["$KV.receipts.>"] });
      expect((await jsm.streams.names().next()).length).to.equal(1);
      const own = await (await jetstreamManager(controller.connection)).streams.names().next();
      expect(own).not.to.include("KV_receipts");
      const heard: string[] = [];
      controller.connection.subscribe("ctl.>", {
        callback: (_error, { subject }) => void heard.push(subject),
      });
      await controller.connection.flush();
      connection.publish(`ctl.${store}.pause`);
      await connection.flush();
      await controller.connection.flush();
      expect(heard).to.deep.equal([]);
    });
  });
});
