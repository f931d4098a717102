/**
 * The attack table of the node link: what a machine that holds a node's credentials can try with a peer
 * of its own making. Each attack is shown to have no effect on another node, on the hub's JetStream and
 * on the controller; and the peer itself is shown able to do what a node may, so that none of it is
 * refused for a wrong reason.
 */
import { jetstream } from "@nats-io/jetstream";
import { encodeUser } from "@nats-io/jwt";
import { createAccount, createUser } from "@nats-io/nkeys";
import { expect } from "chai";
import { callSubject, replySubject } from "../../../transport/rpc/subjects.ts";
import { AttackGround } from "../../support/attack-ground.ts";
import { joinNode, type TestController, type TestNode } from "../../support/link-fleet.ts";
import type { RawLeaf } from "../../support/raw-leaf.ts";

/** Parameters of a request that has none, and the answer 7, as they stand on the link. */
const NIL = Uint8Array.of(0xc0);
const SEVEN = Uint8Array.of(0x92, 0x00, 0x07);

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

  it("is given what its node may have: its calls, and answers to what it asks", async () => {
    const raw = await ground.attacker();
    raw.subscribe(`node.${ground.own}.>`);
    await raw.settled();
    const called = controller.caller.call(ground.own, {
      method: "x",
      params: null,
      generation: 1,
      deadlineMs: 30_000,
      mutation: false,
    });
    await controller.connection.flush();
    await raw.settled();
    const [message] = raw.messages;
    expect(message?.subject).to.equal(callSubject(ground.own));
    raw.publish(message?.reply ?? "", SEVEN);
    expect(await called).to.equal(7);

    raw.publish(`ctl.${ground.own}.pause`, NIL, `node.${ground.own}.i.1`);
    await ground.handled(raw);
    await raw.settled();
    expect(raw.messages.map(({ subject }) => subject)).to.deep.equal([
      callSubject(ground.own),
      `node.${ground.own}.i.1`,
    ]);
    expect(controller.caller.renewal(ground.own)).to.be.a("number");
  });

  it("acknowledges nobody's work with a forged $JS.ACK", async () => {
    const pull = await jetstream(controller.connection).consumers.get("JOBS", "worker");
    const work = await pull.next({ expires: 5_000 });
    const ack = (work as { readonly reply?: string } | null)?.reply ?? "";
    expect(ack).to.match(/^\$JS\.ACK\./);
    await ground.publishEach([
      [ack, "+ACK"],
      [ack.replace("$JS.ACK", "$JS.ACK.hub.x"), "+ACK"],
    ]);
    work?.nak();
  });

  it("takes none of another node's calls, by a queue or plainly, nor the controller's answers", async () => {
    const raw = await ground.attacker();
    for (const subject of [
      "node.>",
      "node.*.rpc",
      callSubject(victim.key),
      `node.${victim.key}.>`,
      `ctl.${victim.key}.>`,
      "ctl.>",
      ">",
      "_INBOX.>",
      "_R_.>",
      "$SYS.>",
      "$JS.>",
      "$KV.>",
    ]) {
      raw.subscribe(subject);
      raw.subscribe(subject, "thieves");
    }
    await ground.handled(raw);
    for (let call = 0; call < 100; call++) await ground.callVictim();
    await ground.handled(raw);
    expect(raw.messages).to.deep.equal([]);
  });

  it("displaces nobody under another node's server name", async () => {
    const raw = await ground.attacker({ serverName: victim.life.serverName });
    await ground.handled(raw);
    expect(victim.leaf.up).to.equal(true);
  });

  it("writes no key and deletes no stream through the answer to its own request", async () => {
    const raw = await ground.attacker();
    const asked: string[] = [];
    const tap = controller.connection.subscribe(`ctl.${ground.own}.*`, {
      callback: (_error, { subject }) => void asked.push(subject),
    });
    await controller.connection.flush();
    const replies = [
      "$KV.registry.node",
      "$JS.API.STREAM.DELETE.JOBS",
      "$JS.hub.API.STREAM.DELETE.JOBS",
      "jobs.2",
      callSubject(victim.key),
    ];
    for (const reply of replies) raw.publish(`ctl.${ground.own}.pause`, NIL, reply);
    await ground.handled(raw);
    tap.unsubscribe();
    // Each was asked and answered; where the answer went is what matters.
    expect(asked).to.have.length(replies.length);
  });

  it("speaks for nobody else to the controller", async () => {
    const raw = await ground.attacker();
    const heard: string[] = [];
    const tap = controller.connection.subscribe("ctl.*.*", {
      callback: (_error, { subject }) => void heard.push(subject),
    });
    await controller.connection.flush();
    raw.publish(`ctl.${ground.own}.notice`, NIL);
    await ground.handled(raw);
    await ground.publishEach([
      [`ctl.${victim.key}.pause`, NIL],
      ["ctl.LEMON.pause", NIL],
      [`ctl.${controller.authority.controllerAccount}.pause`, NIL],
    ]);
    tap.unsubscribe();
    expect(heard).to.deep.equal([`ctl.${ground.own}.notice`]);
    expect(controller.caller.renewal(victim.key)).to.equal(null);
  });

  it("answers no call to another node, even when it knows the call's id", async () => {
    const raw = await ground.attacker();
    const arrived = Promise.withResolvers<void>();
    const end = Promise.withResolvers<string>();
    const slow = await joinNode(controller, {
      handlers: {
        slow() {
          arrived.resolve();
          return end.promise;
        },
      },
    });
    const overheard = Promise.withResolvers<string>();
    const tap = controller.connection.subscribe(callSubject(slow.key), {
      callback: (_error, { reply }) => overheard.resolve(reply?.split(".").at(-1) ?? ""),
    });
    await controller.connection.flush();
    const outcome = controller.caller.call(slow.key, {
      method: "slow",
      params: null,
      generation: 1,
      deadlineMs: 30_000,
      mutation: false,
    });
    await arrived.promise;
    const id = await overheard.promise;
    tap.unsubscribe();
    expect(id).not.to.equal("");
    raw.publish(replySubject(ground.own, id), SEVEN);
    raw.publishWithHeaders(replySubject(ground.own, id), " 503", "");
    await ground.handled(raw);
    await ground.publishEach([[replySubject(slow.key, id), SEVEN]]);
    const other = await ground.attacker();
    other.publishWithHeaders(replySubject(slow.key, id), " 503", "");
    await ground.handled(other);
    end.resolve("honest");
    expect(await outcome).to.equal("honest");
    await slow[Symbol.asyncDispose]();
  });

  it("orders nothing of the hub: not its accounts, not its advisories, not its JetStream", async () => {
    const reply = `node.${ground.own}.i.1`;
    const claims = await encodeUser("x", createUser(), createAccount());
    const orders: [subject: string, payload?: string][] = [
      ["$SYS.REQ.CLAIMS.UPDATE", claims],
      ["$SYS.REQ.CLAIMS.DELETE", claims],
      ["$SYS.REQ.CLAIMS.LIST"],
      [`$SYS.REQ.ACCOUNT.${victim.key}.CLAIMS.LOOKUP`],
      ["$SYS.REQ.SERVER.PING"],
      ["$SYS.REQ.SERVER.PING.CONNZ"],
      ["$SYS.REQ.ACCOUNT.PING.CONNZ"],
      ["$SYS.REQ.USER.INFO"],
      [`$SYS.ACCOUNT.${victim.key}.DISCONNECT`, "{}"],
      ["$JS.API.INFO"],
      ["$JS.API.STREAM.NAMES"],
      ["$JS.API.STREAM.DELETE.JOBS"],
      ["$JS.API.STREAM.PURGE.KV_registry"],
      ["$JS.hub.API.STREAM.DELETE.JOBS"],
      ["$JS.FC.JOBS.x"],
      ["$KV.registry.node", "changed"],
      ["jobs.2", "more"],
    ];
    await ground.publishEach(orders.map(([subject, payload = ""]) => [subject, payload, reply]));
  });

  it("gains nothing by what its CONNECT claims to be", async () => {
    let letIn = 0;
    for (const claims of [
      { is_hub: true },
      { domain: "hub", jetstream: true },
      { remote_account: controller.authority.controllerAccount },
      { cluster: "hub", server_id: "NHUB" },
      { deny_pub: [], deny_sub: [], isolate: true },
      { user: "x", pass: "y", nkey: victim.life.link.getPublicKey() },
    ]) {
      let raw: RawLeaf;
      try {
        raw = await ground.attacker({ claims });
      } catch {
        continue; // refused outright
      }
      letIn += 1;
      raw.subscribe(">");
      raw.subscribe("node.>", "thieves");
      await ground.handled(raw);
      await ground.callVictim();
      raw.publish("$JS.API.STREAM.DELETE.JOBS");
      raw.publish("$KV.registry.node", "changed");
      raw.publish(`ctl.${victim.key}.pause`, NIL);
      await ground.handled(raw);
      expect(raw.messages, JSON.stringify(claims)).to.deep.equal([]);
      expect(controller.caller.renewal(victim.key)).to.equal(null);
      raw.close();
      await raw.closed;
    }
    expect(letIn, "that were let in at all").to.be.at.least(4);
  });

  it("gains nothing by the operations of other kinds of peers, nor by telling what it may do", async () => {
    const rights = JSON.stringify({ import: { allow: [">"] }, export: { allow: [">"] } });
    const claims = JSON.stringify({ jwt: "", is_hub: true });
    for (const text of [
      `PUB ctl.${victim.key}.pause 1\r\n\u0000\r\n`,
      "PUB $KV.registry.node 7\r\nchanged\r\n",
      `HPUB ctl.${victim.key}.pause 12 13\r\nNATS/1.0\r\n\r\n\u0000\r\n`,
      "SUB > 1\r\n",
      "SUB node.> thieves 1\r\n",
      "RS+ $G > \r\n",
      "LDS+ x\r\n",
      `A+ ${victim.key}\r\n`,
      `INFO ${rights}\r\n`,
      `CONNECT ${claims}\r\n`,
    ]) {
      const raw = await ground.attacker();
      raw.send(text);
      await ground.handled(raw);
      raw.subscribe(">");
      raw.publish(`ctl.${victim.key}.pause`, NIL);
      await ground.handled(raw);
      await ground.callVictim();
      expect(raw.messages, text).to.deep.equal([]);
      expect(controller.caller.renewal(victim.key), text).to.equal(null);
      raw.close();
      await raw.closed;
    }
  });
});
