/** Proves which credentials a machine becomes a node with, against a scripted controller and real files. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { enrol } from "../../../cli/roles/enrol.ts";
import {
  type Enrolment,
  findEnrolment,
  storeEnrolment,
} from "../../../cli/roles/enrolment-file.ts";
import { socketOpener } from "../../../client/node/socket.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { FakeControlPlane, SILENCE } from "../../support/fake-control-plane.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const OWN = "7d6f4f0e-7f0a-4a6b-9a55-8a6b0e6f8f11";
const OTHER = "c0a1e2d3-1b2c-4d5e-8f90-a1b2c3d4e5f6";
const OPERATOR = "operator-token";
const CAPABILITIES = { "node.process.run": { version: 1 } };

type Join = Parameters<typeof enrol>[0]["join"];

describe("a machine that becomes a node", () => {
  let folder: TempFolder;
  let peer: FakeControlPlane;
  let url: string;
  /** Tokens that the controller takes. */
  let good: Set<string>;

  beforeEach(async () => {
    folder = tempFolder();
    await begin("operator");
  });
  afterEach(async () => {
    await peer.stop();
    folder[Symbol.dispose]();
    expect(peer.breaches).to.deep.equal([]);
  });

  async function begin(role: "operator" | "node"): Promise<void> {
    good = new Set([OPERATOR, "stored-token", "given-token"]);
    peer = await FakeControlPlane.start({ role, ...(role === "node" ? { clientId: OWN } : {}) });
    url = peer.url;
    peer
      .onConnect(({ token }) => {
        if (!good.has(token ?? ""))
          throw new LemonError("unauthorized", { message: "Invalid token" });
        return undefined;
      })
      .on("node.pair.request", () => ({
        pairingId: "pairing-1",
        code: "123456",
        expiresAtMs: 1,
        summary: {},
      }))
      .on("node.pair.approve", () => ({
        nodeId: OWN,
        token: "recovery-token",
        challengeToken: "challenge-1",
        approved: true,
        summary: {},
      }))
      .on("connect.challenge", () => ({
        verified: true,
        identity: { type: "node", nodeId: OWN, nodeName: "its-name" },
        token: "session-token",
        summary: {},
      }));
  }

  const become = (changes: Partial<Join> = {}) =>
    enrol({
      join: {
        home: folder.path,
        json: true,
        environment: {},
        caFile: null,
        cwd: folder.path,
        allowedRoots: [],
        name: "worker",
        controller: url,
        operatorToken: null,
        token: null,
        pair: false,
        nodeId: null,
        repair: false,
        allowInsecureController: false,
        ...changes,
      },
      capabilities: CAPABILITIES,
      openSocket: socketOpener(),
      clock: new FakeClock(),
      signal: new AbortController().signal,
    });

  const store = (changes: Partial<Enrolment> = {}) =>
    storeEnrolment(folder.path, {
      localName: "worker",
      nodeName: "its-name",
      token: "stored-token",
      nodeId: OWN,
      controller: url,
      recoveryToken: "stored-recovery",
      storedAtMs: 1,
      ...changes,
    });

  const stored = (nodeId: string | null = null) =>
    findEnrolment(folder.path, { localName: "worker", controller: url, nodeId });
  const asked = () => peer.requests.map(({ method }) => method);
  const pairedWith = () => peer.requests[0]?.params;
  const PAIRING = ["node.pair.request", "node.pair.approve", "connect.challenge"];
  const NEW = { nodeType: "coding_agent", nodeName: "worker", capabilities: CAPABILITIES };

  it("pairs by the operator's authority, and keeps what it was given in one private file", async () => {
    const session = await become({ operatorToken: OPERATOR });
    expect(session.token).to.equal("session-token");
    expect(asked()).to.deep.equal(PAIRING);
    expect(pairedWith()).to.deep.equal(NEW);
    expect(peer.connects).to.deep.include.members([
      {
        token: OPERATOR,
        clientId: "lemon-execution-node-pair:worker",
        role: undefined,
        scopes: undefined,
      },
    ]);
    expect(await stored()).to.include({
      nodeId: OWN,
      nodeName: "its-name",
      token: "session-token",
      recoveryToken: "recovery-token",
    });
    expect(readdirSync(join(folder.path, "nodes", "execution"))).to.have.length(1);
  });

  it("asks nobody when it has a session and was given nothing else", async () => {
    await store();
    expect((await become()).token).to.equal("stored-token");
    expect(peer.connects).to.deep.equal([]);
  });

  it("prefers its session to the operator's authority while that is good", async () => {
    await store();
    expect((await become({ operatorToken: OPERATOR })).token).to.equal("stored-token");
    expect(asked()).to.deep.equal([]);
  });

  it("keeps its session while the controller can not be reached", async () => {
    await store();
    await peer.stop();
    const session = await become({ operatorToken: OPERATOR });
    await begin("operator");
    expect(session.token).to.equal("stored-token");
  });

  it("recovers its id by its recovery token when its session is refused", async () => {
    await store();
    good.delete("stored-token");
    peer.on("node.pair.approve", () => ({
      nodeId: OWN,
      challengeToken: "challenge-2",
      approved: true,
      summary: {},
    }));
    expect((await become({ operatorToken: OPERATOR })).token).to.equal("session-token");
    expect(pairedWith()).to.deep.equal({ ...NEW, nodeId: OWN, recoveryToken: "stored-recovery" });
    // It was not given another one, so the old one stays good.
    expect((await stored())?.recoveryToken).to.equal("stored-recovery");
  });

  it("begins anew only when it is told to, and forgets nothing of what it was", async () => {
    await store({ nodeId: OTHER });
    await become({ operatorToken: OPERATOR, pair: true });
    expect(pairedWith()).to.deep.equal(NEW);
    expect((await stored())?.nodeId).to.equal(OWN);
    expect((await stored(OTHER))?.recoveryToken).to.equal("stored-recovery");
  });

  it("takes an id over by the operator's authority: its own, or one that it names", async () => {
    await store();
    await become({ operatorToken: OPERATOR, repair: true });
    expect(pairedWith()).to.deep.equal({ ...NEW, nodeId: OWN, repair: true });
    peer.requests.length = 0;
    await become({ operatorToken: OPERATOR, repair: true, nodeId: OTHER });
    expect(pairedWith()).to.deep.equal({ ...NEW, nodeId: OTHER, repair: true });
  });

  it("says in one line what is missing for that, before it asks anybody", async () => {
    const nothing = await refusalOf(() => become({ operatorToken: OPERATOR, repair: true }));
    expect(nothing.message).to.match(/^--repair wants --node-id/);
    const foreign = await refusalOf(() => become({ operatorToken: OPERATOR, nodeId: OTHER }));
    expect(foreign.message).to.match(/add --repair to take it over by the operator's authority$/);
    expect(peer.connects).to.deep.equal([]);
  });

  it("can prove that an approved id is its own, though the answer to its challenge was lost", async () => {
    peer.on("connect.challenge", (_params, connection) => {
      connection.drop();
      return SILENCE;
    });
    await refusalOf(() => become({ operatorToken: OPERATOR }));
    expect(await stored()).to.include({
      nodeId: OWN,
      token: null,
      recoveryToken: "recovery-token",
    });
    peer.requests.length = 0;
    await refusalOf(() => become({ operatorToken: OPERATOR }));
    expect(pairedWith()).to.deep.equal({ ...NEW, nodeId: OWN, recoveryToken: "recovery-token" });
  });

  it("uses no session that another controller gave, nor another node's", async () => {
    await store({ controller: "ws://127.0.0.1:1/ws" });
    await store({ localName: "another", nodeId: OTHER });
    await become({ operatorToken: OPERATOR });
    expect(pairedWith()).to.deep.equal(NEW);
  });

  it("says which file is damaged, in which folder, and what mends it", async () => {
    await store();
    const files = join(folder.path, "nodes", "execution");
    const [file = ""] = readdirSync(files);
    writeFileSync(join(files, file), readFileSync(join(files, file)).subarray(0, 20));
    const { message } = await refusalOf(() => become());
    expect(message).to.match(
      /enrolment file below nodes\/execution\/ in LEMON_HOME is damaged; .*--pair/,
    );
  });

  describe("by a token that it is given", () => {
    beforeEach(async () => {
      await peer.stop();
      await begin("node");
    });

    it("joins as the node whose it is, and keeps what it can recover that by", async () => {
      await store({ token: "older" });
      expect((await become({ token: "given-token" })).token).to.equal("given-token");
      expect(await stored()).to.include({ token: "given-token", recoveryToken: "stored-recovery" });
      expect(asked()).to.deep.equal([]);
    });

    it("knows no way to recover a node that it was not", async () => {
      await store({ nodeId: OTHER });
      await become({ token: "given-token" });
      expect(await stored(OWN)).to.include({ token: "given-token", recoveryToken: null });
    });

    it("refuses one of another node than it was told to be", async () => {
      const { code, message } = await refusalOf(() =>
        become({ token: "given-token", nodeId: OTHER }),
      );
      expect([code, message]).to.deep.equal([
        "unauthorized",
        "The token given with --token is another node's than --node-id names",
      ]);
      expect(await stored()).to.equal(null);
    });

    it("refuses one that the controller refuses, and one that is no node's", async () => {
      expect((await refusalOf(() => become({ token: "guessed" }))).message).to.equal(
        "Invalid token",
      );
      await peer.stop();
      await begin("operator");
      const { message } = await refusalOf(() => become({ token: OPERATOR }));
      expect(message).to.equal("The token given with --token is no node's session token");
      expect(await stored()).to.equal(null);
    });
  });
});
