/** Proves how a worker keeps its link's credentials good, and when its life is over, on a bent clock. */
import { createUser } from "@nats-io/nkeys";
import { expect } from "chai";
import pino from "pino";
import { findEnrolment, storeEnrolment } from "../../../cli/roles/enrolment-file.ts";
import {
  type LinkOpening,
  openWorkerChannel,
  type WorkerChannel,
  type WorkerEnd,
} from "../../../cli/roles/worker-channel.ts";
import { socketOpener } from "../../../client/node/socket.ts";
import { type ErrorCode, LemonError } from "../../../protocol/errors.ts";
import { NODE_CLOSE } from "../../../protocol/methods/enrolment.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeControlPlane, type PeerConnection } from "../../support/fake-control-plane.ts";
import { refusalOf } from "../../support/refusal.ts";
import { tempFolder } from "../../support/temp-folder.ts";

const HOUR_MS = 3_600_000;
const NODE_ID = "7d6f4f0e-7f0a-4a6b-9a55-8a6b0e6f8f11";

class Stage implements AsyncDisposable {
  readonly folder = tempFolder();
  readonly clock = new FakeClock();
  readonly renewed: LinkOpening[] = [];
  readonly ended = Promise.withResolvers<WorkerEnd>();
  /** What the next openings answer. */
  nodeKey = "key-1";
  refusal: ErrorCode | null = null;
  openings = 0;
  channel: WorkerChannel | null = null;
  readonly controller: FakeControlPlane;

  private constructor(controller: FakeControlPlane) {
    this.controller = controller;
    controller.on("node.link.open", () => {
      if (this.refusal !== null) throw new LemonError(this.refusal);
      this.openings += 1;
      return {
        nodeId: NODE_ID,
        nodeName: "worker",
        nodeKey: this.nodeKey,
        generation: 1,
        linkJwt: `jwt-${this.openings}`,
        linkLifetimeMs: HOUR_MS,
        leafPath: "",
        leafUrl: null,
        sessionToken: `token-${this.openings}`,
        sessionTokenExpiresAtMs: this.clock.nowMs() + 7 * 24 * HOUR_MS,
        registeredStoreId: null,
        registeredStoreSequence: null,
      };
    });
  }

  static async begin(role: "node" | "operator" = "node"): Promise<Stage> {
    return new Stage(await FakeControlPlane.start({ role, clientId: NODE_ID }));
  }

  async open(): Promise<WorkerChannel> {
    const home = this.folder.path;
    const enrolment = {
      localName: "worker",
      nodeName: "worker",
      token: "token-0",
      nodeId: NODE_ID,
      controller: this.controller.url,
      recoveryToken: null,
      storedAtMs: 0,
    };
    await storeEnrolment(home, enrolment);
    const linkKey = createUser().getPublicKey();
    this.channel = await openWorkerChannel({
      session: { enrolment, token: "token-0" },
      home,
      openSocket: socketOpener(),
      clock: this.clock,
      log: pino({ enabled: false }),
      opening: () => ({
        linkKey,
        sealKey: `X${linkKey.slice(1)}`,
        serverName: "n-1",
        lemonVersion: "2026.11.0",
        capabilities: {},
      }),
      onRenewed: (opening) => this.renewed.push(opening),
      onEnd: this.ended.resolve,
      signal: new AbortController().signal,
    });
    return this.channel;
  }

  async storedToken(): Promise<string | null | undefined> {
    const wanted = { localName: "worker", controller: this.controller.url, nodeId: NODE_ID };
    return (await findEnrolment(this.folder.path, wanted))?.token;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.channel?.close();
    await this.controller.stop();
    this.folder[Symbol.dispose]();
    expect(this.controller.breaches).to.deep.equal([]);
  }
}

describe("a worker's session with its controller", () => {
  it("opens the link and keeps the session token it was given", async () => {
    await using stage = await Stage.begin();
    const { first } = await stage.open();
    expect(first.linkJwt).to.equal("jwt-1");
    expect(await stage.storedToken()).to.equal("token-1");
    expect(stage.controller.connects.map(({ token }) => token)).to.deep.equal(["token-0"]);
  });

  it("renews at half of the credentials' life, and not before", async () => {
    await using stage = await Stage.begin();
    await stage.open();
    await stage.clock.advance(HOUR_MS / 2 - 1);
    expect(stage.controller.count("node.link.open")).to.equal(1);
    await stage.clock.advance(1);
    await stage.controller.seen("node.link.open", 2);
    await until(() => stage.renewed.length === 1);
    expect(stage.renewed[0]?.linkJwt).to.equal("jwt-2");
    expect(await stage.storedToken()).to.equal("token-2");
  });

  it("tries a renewal that failed again half a minute later", async () => {
    await using stage = await Stage.begin();
    await stage.open();
    stage.refusal = "unavailable";
    await stage.clock.advance(HOUR_MS / 2);
    await stage.controller.seen("node.link.open", 2);
    await until(() => stage.clock.pending > 0);
    stage.refusal = null;
    await stage.clock.advance(30_000);
    await until(() => stage.renewed.length === 1);
  });

  it("renews when the link has been down for five seconds, once, and not when it was back before", async () => {
    await using stage = await Stage.begin();
    const channel = await stage.open();
    channel.linkChanged(false);
    await stage.clock.advance(4_999);
    channel.linkChanged(true);
    await stage.clock.advance(60_000);
    expect(stage.controller.count("node.link.open")).to.equal(1);

    channel.linkChanged(false);
    await stage.clock.advance(4_999);
    expect(stage.controller.count("node.link.open")).to.equal(1);
    await stage.clock.advance(1);
    await until(() => stage.renewed.length === 1);
    await stage.clock.advance(60_000);
    expect(stage.controller.count("node.link.open")).to.equal(2);
  });

  it("learns from a link that is down that its life is over", async () => {
    await using stage = await Stage.begin();
    const channel = await stage.open();
    stage.refusal = "node_superseded";
    channel.linkChanged(false);
    await stage.clock.advance(5_000);
    expect(await stage.ended.promise).to.equal("superseded");
    channel.linkChanged(false);
    expect(stage.clock.pending).to.equal(0);
  });

  it("opens again with the newest token when the connection was lost", async () => {
    await using stage = await Stage.begin();
    await stage.open();
    stage.controller.connections[0]?.drop();
    await until(() => stage.renewed.length === 1);
    expect(stage.controller.connects.map(({ token }) => token)).to.deep.equal([
      "token-0",
      "token-1",
    ]);
  });

  it("ends as moved when a renewal names another account", async () => {
    await using stage = await Stage.begin();
    await stage.open();
    stage.nodeKey = "key-2";
    await stage.clock.advance(HOUR_MS / 2);
    expect(await stage.ended.promise).to.equal("moved");
    expect(stage.renewed).to.deep.equal([]);
  });

  for (const [word, code] of [
    ["superseded", NODE_CLOSE.superseded.code],
    ["revoked", NODE_CLOSE.revoked.code],
  ] as const) {
    it(`ends as ${word} when the controller closes with ${code}, and does not connect again`, async () => {
      await using stage = await Stage.begin();
      await stage.open();
      stage.controller.connections[0]?.close(code, word);
      expect(await stage.ended.promise).to.equal(word);
      expect(stage.controller.connects).to.have.length(1);
    });
  }

  for (const [refusal, word] of [
    ["node_superseded", "superseded"],
    ["node_revoked", "revoked"],
    ["node_not_found", "revoked"],
  ] as const) {
    it(`ends as ${word} when a renewal is refused with ${refusal}`, async () => {
      await using stage = await Stage.begin();
      await stage.open();
      stage.refusal = refusal;
      await stage.clock.advance(HOUR_MS / 2);
      expect(await stage.ended.promise).to.equal(word);
    });
  }

  it("asks again, with its newest token, whether its life is over when another came in its place", async () => {
    await using stage = await Stage.begin();
    await stage.open();
    const { replaced } = NODE_CLOSE;
    stage.controller.connections[0]?.close(replaced.code, replaced.reason);
    await stage.controller.seen("node.link.open", 2);
    const tokens = stage.controller.connects.map(({ token }) => token);
    expect(tokens).to.deep.equal(["token-0", "token-1"]);
    // Its credentials are those it had, and are renewed when they were to be.
    expect(stage.renewed).to.deep.equal([]);
    await stage.clock.advance(HOUR_MS / 2);
    await until(() => stage.renewed.length === 1);
    expect(stage.renewed[0]?.linkJwt).to.equal("jwt-3");
  });

  for (const [refusal, word] of [
    ["node_superseded", "superseded"],
    ["node_revoked", "revoked"],
    ["unauthorized", "refused"],
  ] as const) {
    for (const [how, end] of [
      ["its connection was lost", (peer: PeerConnection) => peer.drop()],
      ["another came in its place", (peer: PeerConnection) => peer.close(NODE_CLOSE.replaced.code)],
    ] as const) {
      it(`ends as ${word} when its token is refused with ${refusal} after ${how}`, async () => {
        await using stage = await Stage.begin();
        await stage.open();
        stage.controller.onConnect(() => {
          throw new LemonError(refusal, { wire: "UNAUTHORIZED" });
        });
        for (const peer of stage.controller.connections) end(peer);
        expect(await stage.ended.promise).to.equal(word);
      });
    }
  }

  it("refuses a session that is not its node's", async () => {
    await using stage = await Stage.begin("operator");
    expect((await refusalOf(() => stage.open())).code).to.equal("unauthorized");
  });
});

/** Waits for what only real sockets and files can bring about. */
async function until(met: () => boolean): Promise<void> {
  while (!met()) await new Promise((resolve) => setImmediate(resolve));
}
