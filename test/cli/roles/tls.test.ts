import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import { expect } from "chai";
import {
  managedToken,
  RoleStage,
  type StartedController,
  type StartedNode,
} from "../../support/role-stage.ts";
import { TEST_TLS, TEST_TLS_NAMES } from "../../support/tls-fixture.ts";
import { type TlsFront, tlsFront } from "../../support/tls-front.ts";

const UNTRUSTED =
  /^lemon: The controller can not be reached \([A-Z_]*CERT[A-Z_]*\); trust its authority with --ca-file\n$/;
const MISNAMED =
  /^lemon: The controller can not be reached \(ERR_TLS_CERT_ALTNAME_INVALID\); reach it by a name that its certificate holds\n$/;

describe("a controller behind a TLS terminator", () => {
  let stage: RoleStage;
  let controller: StartedController;
  let front: TlsFront;
  /** Its certificate is good for `localhost` alone. */
  let named: TlsFront;
  let joining: Readonly<Record<string, string>>;
  /** PEM files: the authority of each, and one that is as good and has nothing to do with them. */
  let caFile: string;
  let namedCaFile: string;
  let wrongCaFile: string;
  before(async () => {
    stage = new RoleStage();
    controller = await stage.controller("start");
    front = await tlsFront(TEST_TLS, controller.port);
    named = await tlsFront({ ...TEST_TLS, cert: TEST_TLS_NAMES.name }, controller.port);
    joining = { LEMON_NODE_OPERATOR_TOKEN: managedToken(controller), LEMON_LOG_LEVEL: "warn" };
    caFile = join(stage.path, "ca.pem");
    writeFileSync(caFile, TEST_TLS.cert);
    namedCaFile = join(stage.path, "named-ca.pem");
    writeFileSync(namedCaFile, TEST_TLS_NAMES.name);
    wrongCaFile = join(stage.path, "wrong-ca.pem");
    writeFileSync(wrongCaFile, String(rootCertificates[0]));
  });
  after(async () => {
    await stage[Symbol.asyncDispose]();
    await front[Symbol.asyncDispose]();
    await named[Symbol.asyncDispose]();
  });

  const lemon = (words: readonly string[]) =>
    stage.lemon(words, { LEMON_WS_TOKEN: managedToken(controller) });

  describe("with --ca-file", () => {
    let url: string;
    let node: StartedNode;
    before(async () => {
      url = `wss://localhost:${front.port}`;
      node = await stage.node({ url }, { words: ["--ca-file", caFile], environment: joining });
    });

    it("is joined, its /ws and its leaf both by TLS, and runs what it is asked for", async () => {
      // The pairing, the worker's session and the leaf.
      expect(front.accepted).to.be.at.least(3);
      const flags = ["--controller", url, "--ca-file", caFile];
      const ran = await lemon(["process", "run", node.nodeId, ...flags, "--", "echo", "by TLS"]);
      expect(ran).to.deep.include({ exitCode: 0, stdout: Buffer.from("by TLS\n") });
      expect(node.role.log).to.equal("");
    });

    it("has its node back by what that keeps, and the authority is wanted again", async () => {
      expect(await node.role.end("SIGTERM")).to.equal(0);
      const words = ["node", "join", "--name", "worker", "--controller", url];
      const distrusting = stage.role(words, node.home, { LEMON_LOG_LEVEL: "warn" });
      expect((await distrusting.ended()).exitCode).to.equal(2);
      expect(distrusting.log).to.match(UNTRUSTED);
      node = await stage.node({ url }, { words: ["--ca-file", caFile] });
      expect(node.generation).to.equal(2);
    });
  });

  for (const [what, flags, host, line] of [
    ["without --ca-file", () => [], "localhost", UNTRUSTED],
    ["with the wrong --ca-file", () => ["--ca-file", wrongCaFile], "localhost", UNTRUSTED],
    [
      "by an address that its certificate lacks",
      () => ["--ca-file", namedCaFile],
      "127.0.0.1",
      MISNAMED,
    ],
  ] as const) {
    it(`is refused ${what}, in one line that says what mends it`, async () => {
      const { port } = host === "localhost" ? front : named;
      const words = ["--controller", `wss://${host}:${port}`, ...flags()];
      const asStranger = ["node", "join", "--name", "stranger", ...words];
      const role = stage.role(asStranger, join(stage.path, "stranger"), joining);
      expect((await role.ended()).exitCode).to.equal(2);
      expect(role.log).to.match(line);
      const listed = await lemon(["node", "list", ...words]);
      expect(listed.exitCode).to.equal(1);
      expect(listed.stderr).to.match(line);
    });
  }
});
