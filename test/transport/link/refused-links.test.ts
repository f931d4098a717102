/** The second half of the attack table: what gives no link, or ends the one that there is. */
import { once } from "node:events";
import { encodeUser } from "@nats-io/jwt";
import { createAccount, createUser } from "@nats-io/nkeys";
import { connect, jwtAuthenticator } from "@nats-io/transport-node";
import { expect } from "chai";
import { WebSocket } from "ws";
import { newSigningKey } from "../../../transport/keys/signing-key.ts";
import { AttackGround, type LeafOptions } from "../../support/attack-ground.ts";
import { expiredJwt, type TestController, type TestNode } from "../../support/link-fleet.ts";

const HOUR_MS = 3_600_000;

describe("a machine that speaks the leaf protocol by hand", () => {
  let ground: AttackGround;
  let controller: TestController;
  /** The honest node that must never notice. */
  let victim: TestNode;
  before(async () => {
    ground = await AttackGround.open();
    ({ controller, victim } = ground);
  });
  after(() => ground[Symbol.asyncDispose]());
  beforeEach(() => ground.begin());
  afterEach(() => ground.end());

  it("gets 500 subscriptions and no more", async () => {
    const raw = await ground.attacker();
    for (let at = 0; at < 600; at++) raw.subscribe(`node.${ground.own}.s${at}`);
    await raw.settled();
    expect(raw.errors.length).to.be.at.least(100);
    expect(raw.errors[0]).to.include("maximum subscriptions exceeded");
  });

  it("gets two links at once and no third, whatever key each has", async () => {
    const links = [await ground.attacker(), await ground.attacker()];
    const refused = await ground.attacker().catch((error: Error) => error.message);
    expect(refused).to.match(/maximum account active/);
    for (const link of links) await link.settled();
  });

  describe("gets no link at all", () => {
    const refusal = async (options: LeafOptions): Promise<string> => {
      try {
        await ground.attacker(options);
      } catch (error) {
        return (error as Error).message;
      }
      return "accepted";
    };

    const refusedWord = /authori|authentication|expired|revoked/i;

    it("with credentials that have expired", async () => {
      const key = createUser();
      const jwt = await expiredJwt(controller, ground.own, key.getPublicKey());
      expect(await refusal({ jwt, key })).to.match(refusedWord);
    });

    it("with credentials that were revoked", async () => {
      const key = createUser();
      const jwt = await ground.issued(key);
      await controller.link.revoke(ground.own, [key.getPublicKey()]);
      expect(await refusal({ jwt, key })).to.match(refusedWord);
    });

    it("with somebody else's credentials and its own key", async () => {
      const theirs = createUser().getPublicKey();
      const jwt = await controller.link.issue(victim.key, theirs, { expiresInMs: HOUR_MS });
      expect(await refusal({ jwt })).to.match(refusedWord);
    });

    it("with credentials that it signed itself", async () => {
      const account = newSigningKey(createAccount);
      const key = createUser();
      for (const jwt of [
        await encodeUser("worker", key, account, {}, { scopedUser: true }),
        await encodeUser("worker", key, victim.key, {}, { signer: account, scopedUser: true }),
      ]) {
        expect(await refusal({ jwt, key })).to.match(refusedWord);
      }
    });

    it("with no JWT, or with one of which a byte is another", async () => {
      expect(await refusal({ jwt: "" })).to.match(refusedWord);
      const key = createUser();
      const jwt = await ground.issued(key);
      const at = jwt.indexOf(".") + 40;
      const changed = `${jwt.slice(0, at)}${jwt[at] === "A" ? "B" : "A"}${jwt.slice(at + 1)}`;
      expect(await refusal({ jwt: changed, key })).to.match(refusedWord);
    });

    it("as a plain client, on the hub's client port", async () => {
      const key = createUser();
      const authenticator = jwtAuthenticator(await ground.issued(key), key.getSeed());
      const servers = controller.hub.child.clientUrl;
      const refused = await connect({ servers, authenticator, reconnect: false }).then(
        async (client) => {
          await client.close();
          return "accepted";
        },
        (error: Error) => error.message,
      );
      expect(refused).to.match(refusedWord);
    });
  });

  it("is cut off by the hub when a message is larger than the hub takes, and nobody else is", async () => {
    const raw = await ground.attacker();
    raw.send(`LMSG ctl.${ground.own}.x ${9 * 1024 * 1024}\r\n`);
    raw.send("x".repeat(1024));
    await raw.closed;
  });

  it("is cut off when it does not say who it is, whether it says nothing or begins and never ends", async () => {
    const strangers = ["", "CONNECT {"].map((text) => {
      const socket = new WebSocket(`${controller.websocketUrl}/leafnode`);
      socket.on("open", () => socket.send(text));
      return once(socket, "close");
    });
    await Promise.all(strangers);
  });

  it("is cut off for what is no protocol at all, and nobody else is", async () => {
    for (const text of [
      "GET / HTTP/1.1\r\n\r\n",
      "LMSG\r\n",
      "LS+ \r\n",
      "RMSG $G x 1\r\nx\r\n",
      "\u0000".repeat(5_000),
    ]) {
      const raw = await ground.attacker();
      raw.send(text);
      await raw.settled().catch(() => undefined);
      raw.close();
      await raw.closed;
    }
  });
});
