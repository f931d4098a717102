import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { writeControllerRecord } from "../../../cli/controller-record.ts";
import { ownIdentity } from "../../../host/process-identity.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { FakeControlPlane, SILENCE } from "../../support/fake-control-plane.ts";
import { type Ended, LemonProcess } from "../../support/lemon-process.ts";
import { base64, completed, NODE_ID, nodeList, nodeRow } from "../../support/node-rows.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";
import { TEST_TLS } from "../../support/tls-fixture.ts";

const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, index) => index);

describe("the real command", () => {
  let cache: TempFolder;
  let folder: TempFolder;
  let peer: FakeControlPlane;

  before(() => {
    cache = tempFolder();
  });
  after(() => cache[Symbol.dispose]());

  beforeEach(async () => {
    folder = tempFolder();
    peer = await FakeControlPlane.start({ token: "secret" });
    peer.on("node.list", () => nodeList(nodeRow()));
  });
  afterEach(async () => {
    await peer.stop();
    folder[Symbol.dispose]();
    expect(peer.breaches).to.deep.equal([]);
  });

  function start(words: readonly string[], stdin?: Uint8Array): LemonProcess {
    return new LemonProcess(words, {
      compileCache: cache.path,
      cwd: folder.path,
      environment: {
        LEMON_HOME: join(folder.path, "home"),
        LEMON_CONTROLLER: peer.url,
        LEMON_WS_TOKEN: "secret",
      },
      ...(stdin === undefined ? {} : { stdin }),
    });
  }
  const lemon = (...words: readonly string[]): Promise<Ended> => start(words).ended();
  const RUN = ["process", "run", "worker-1", "--id", "t:1"] as const;

  it("passes every byte of both streams through, and the exit code", async () => {
    peer.on("node.process.run", ({ processId }) =>
      completed(processId, {
        exitCode: 7,
        stdoutBase64: base64(EVERY_BYTE),
        stderrBase64: base64(EVERY_BYTE.toReversed()),
      }),
    );
    const child = start([...RUN, "--", "x"]);
    const stderr: Buffer[] = [];
    child.child.stderr?.on("data", (chunk: Buffer) => stderr.push(chunk));
    const ended = await child.ended();
    expect(ended.exitCode).to.equal(7);
    expect([...ended.stdout]).to.deep.equal([...EVERY_BYTE]);
    expect([...Buffer.concat(stderr)]).to.deep.equal([...EVERY_BYTE.toReversed()]);
  });

  it("takes its standard input to the byte", async () => {
    peer.on("node.process.run", ({ processId, stdinBase64 }) =>
      completed(processId, { stdoutBase64: stdinBase64 }),
    );
    const ended = await start([...RUN, "--stdin", "-", "--", "cat"], EVERY_BYTE).ended();
    expect([...ended.stdout]).to.deep.equal([...EVERY_BYTE]);
  });

  it("writes a whole mebibyte before it ends, however slowly it is read", async () => {
    const bytes = Buffer.alloc(1_048_576, "lemon");
    peer.on("node.process.run", ({ processId }) =>
      completed(processId, { stdoutBase64: bytes.toString("base64") }),
    );
    const child = start([...RUN, "--", "x"]);
    child.child.stdout?.pause();
    await peer.seen("node.process.run");
    // The pipe takes 64 KiB; the rest waits for us.
    await new Promise((resolve) => setImmediate(resolve));
    child.child.stdout?.resume();
    const ended = await child.ended();
    expect(ended.exitCode).to.equal(0);
    expect(ended.stdout.equals(bytes)).to.equal(true);
  });

  it("ends with the remote exit code, and without a word, when nobody reads its output", async () => {
    peer.on("node.process.run", ({ processId }) =>
      completed(processId, { exitCode: 3, stdoutBase64: base64(Buffer.alloc(1_000_000, 1)) }),
    );
    const child = start([...RUN, "--", "x"]);
    child.child.stdout?.destroy();
    const ended = await child.ended();
    expect(ended).to.include({ exitCode: 3, stderr: "" });
  });

  it("tells a refusal from a process that ended with the same number, with --json", async () => {
    peer.on("node.process.run", ({ processId }) => completed(processId, { exitCode: 121 }));
    const remote = await lemon(...RUN, "--json", "--", "x");
    peer.on("node.process.run", () => {
      throw new LemonError("path_not_allowed");
    });
    const refused = await lemon(...RUN, "--json", "--", "x");
    expect([remote.exitCode, refused.exitCode]).to.deep.equal([121, 121]);
    expect(JSON.parse(remote.stdout.toString())).to.include({ state: "completed", exitCode: 121 });
    expect(JSON.parse(refused.stdout.toString())).to.have.nested.property(
      "error.code",
      "path_not_allowed",
    );
  });

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    it(`leaves the run on ${signal} without a terminal, and says how to ask again`, async () => {
      peer.on("node.process.run", () => SILENCE);
      const child = start([...RUN, "--", "sleep", "60"]);
      await peer.seen("node.process.run");
      child.child.kill(signal);
      const ended = await child.ended();
      expect(ended.exitCode).to.equal(125);
      // What can be typed in a checkout.
      const again = `npm run --silent lemon -- process get ${NODE_ID} t:1`;
      expect(ended.stderr).to.include(`lemon: ask again with: ${again}\n`);
      expect(peer.count("node.process.cancel")).to.equal(0);
    });
  }

  it("dies of a signal that comes before anything was sent", async () => {
    peer.on("node.list", () => SILENCE);
    const child = start([...RUN, "--", "x"]);
    await peer.seen("node.list");
    child.child.kill("SIGINT");
    const ended = await child.ended();
    expect(ended).to.include({ exitCode: null, signal: "SIGINT" });
    expect(peer.count("node.process.run")).to.equal(0);
  });

  it("has said a made-up id before a kill -9 can come", async () => {
    peer.on("node.process.run", () => SILENCE);
    const child = start(["process", "run", "worker-1", "--", "x"]);
    await peer.seen("node.process.run");
    child.child.kill("SIGKILL");
    expect((await child.ended()).stderr).to.match(/^lemon: process id run:[0-9a-f-]{36}\n$/);
  });

  it("finds the controller that runs here, and its token, by itself", async () => {
    const home = join(folder.path, "home");
    const tokenFile = join(home, "run", "control-plane.token");
    const own = ownIdentity();
    await writeControllerRecord(home, { port: peer.port, ...own, tokenFile });
    writeFileSync(tokenFile, "secret\n", { mode: 0o600 });
    const child = new LemonProcess(["node", "list", "--json"], {
      compileCache: cache.path,
      environment: { LEMON_HOME: home },
    });
    const ended = await child.ended();
    expect(ended.stderr).to.equal("");
    expect(JSON.parse(ended.stdout.toString())).to.deep.equal(nodeList(nodeRow()));
  });

  it("trusts the authority of --ca-file, and no stranger", async () => {
    const secure = await FakeControlPlane.start({ token: "secret", tls: TEST_TLS });
    secure.on("node.list", () => nodeList(nodeRow()));
    writeFileSync(join(folder.path, "ca.pem"), TEST_TLS.cert);
    const trusted = await lemon("node", "list", "--controller", secure.url, "--ca-file", "ca.pem");
    const stranger = await lemon("node", "list", "--controller", secure.url);
    await secure.stop();
    expect(trusted).to.include({ exitCode: 0, stderr: "" });
    expect(stranger.exitCode).to.equal(1);
    expect(stranger.stderr).to.match(/can not be reached \([A-Z_]*CERT[A-Z_]*\)/);
    expect(secure.connects).to.have.length(1);
  });
});
