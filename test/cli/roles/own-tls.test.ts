/** A controller that speaks TLS by itself, through real processes: its own command, a node far away, a renewal. */
import { chmodSync, existsSync, renameSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { join } from "node:path";
import { expect } from "chai";
import { WebSocket } from "ws";
import { type Client, connect } from "../../../client/index.ts";
import { type SocketSettings, socketOpener } from "../../../client/node/socket.ts";
import {
  managedToken,
  RoleStage,
  type StartedController,
  type StartedNode,
  shellRun,
} from "../../support/role-stage.ts";
import { TEST_ISSUED } from "../../support/tls-fixture.ts";

/** Keys and certificates as an operator has them, each under a name that can be replaced in one step. */
function files(stage: RoleStage) {
  const write = (name: string, text: string, mode: number): string => {
    const path = join(stage.path, name);
    writeFileSync(`${path}.new`, text);
    chmodSync(`${path}.new`, mode);
    renameSync(`${path}.new`, path);
    return path;
  };
  return {
    cert: (text: string) => write("cert.pem", text, 0o644),
    key: (text: string, mode = 0o600) => write("key.pem", text, mode),
    authority: () => write("authority.pem", TEST_ISSUED.authority, 0o644),
  };
}

describe("a controller with TLS of its own", () => {
  let stage: RoleStage;
  let up: StartedController;
  let node: StartedNode;
  let client: Client;
  let authority: string;

  before(async () => {
    stage = new RoleStage();
    const { cert, key, authority: writeAuthority } = files(stage);
    const { near } = TEST_ISSUED;
    authority = writeAuthority();
    up = await stage.controller("up", {
      words: [
        ...["--tls-cert", cert(near.cert), "--tls-key", key(near.key)],
        ...["--trusted-proxy", "127.0.0.1", "--allowed-origin", "https://app.example"],
      ],
    });
    node = await stage.node(
      { url: `wss://localhost:${up.port}/ws` },
      {
        words: ["--ca-file", authority],
        environment: { LEMON_NODE_OPERATOR_TOKEN: managedToken(up) },
      },
    );
    client = await connect({
      url: `wss://localhost:${up.port}/ws`,
      token: managedToken(up),
      clientId: "tls-test",
      openSocket: socketOpener({ ca: TEST_ISSUED.authority }),
    });
  });
  after(async () => {
    client.close();
    await stage[Symbol.asyncDispose]();
  });

  const here = () => ({ LEMON_HOME: up.home });
  /** What somebody meets who trusts as the settings say. */
  const connectionBy = async (trust: SocketSettings): Promise<string> => {
    try {
      const openSocket = socketOpener(trust);
      const options = { token: managedToken(up), clientId: "tls-test", openSocket };
      (await connect({ url: `wss://localhost:${up.port}/ws`, ...options })).close();
      return "connected";
    } catch (failure) {
      return String(failure);
    }
  };
  const signal = async (says: string): Promise<void> => {
    const from = up.role.log.length;
    up.role.child.kill("SIGHUP");
    await up.role.until(() => (up.role.log.slice(from).includes(says) ? true : undefined));
  };

  it("says so, and runs its first run over it", async () => {
    expect(up.url).to.equal(`wss://127.0.0.1:${up.port}/ws`);
    const { receipt } = await up.role.said("probe");
    expect(receipt).to.include({ state: "completed", exitCode: 0 });
  });

  it("serves /healthz by TLS, and nothing without it", async () => {
    const { promise, resolve } = Promise.withResolvers<number | undefined>();
    const url = `https://localhost:${up.port}/healthz`;
    get(url, { ca: TEST_ISSUED.authority }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    expect(await promise).to.equal(200);
    await fetch(`http://127.0.0.1:${up.port}/healthz`).then(
      () => expect.fail("served without TLS"),
      () => {},
    );
  });

  it("lets in the pages that it was told of, and believes the proxy that it was told of", async () => {
    const opened = (headers: Record<string, string>): Promise<string> => {
      const { promise, resolve } = Promise.withResolvers<string>();
      const socket = new WebSocket(`wss://localhost:${up.port}/ws`, {
        ca: TEST_ISSUED.authority,
        headers,
      });
      socket.once("open", () => resolve("opened"));
      socket.once("error", ({ message }) => resolve(message));
      return promise.finally(() => socket.terminate());
    };
    expect(await opened({ Origin: "https://app.example" })).to.equal("opened");
    expect(await opened({ Origin: `https://localhost:${up.port}` })).to.equal("opened");
    expect(await opened({ Origin: "https://evil.example" })).to.include("403");
    const contradicting = { "X-Forwarded-For": "203.0.113.5", Forwarded: "for=203.0.113.6" };
    expect(await opened(contradicting)).to.include("400");
  });

  it("has its nodes joined and linked through it", async () => {
    const receipt = await client.call(
      "node.process.run",
      shellRun(node.nodeId, "tls:1", "printf far"),
    );
    expect(Buffer.from(receipt.stdoutBase64 ?? "", "base64").toString()).to.equal("far");
  });

  it("is found and known by the commands of its machine, and by nobody who does not trust it", async () => {
    const doctor = await stage.lemon(["doctor", "--json"], here());
    // It asks both by HTTP and by /ws.
    expect(doctor.stdout.toString()).to.include("agrees with the controller's");
    expect(doctor.stdout.toString()).to.include(`${up.url}, `);
    const { checks } = JSON.parse(doctor.stdout.toString());
    const certificate = checks.find(({ name }: { name: string }) => name === "certificate");
    expect(certificate).to.include({ level: "ok", finding: "valid until 2120-01-01" });
    const token = managedToken(up);
    const stranger = await connectionBy({});
    expect(stranger).to.include("UNABLE_TO_VERIFY_LEAF_SIGNATURE");
    const trusting = await stage.lemon(["status"], {
      LEMON_HOME: stage.folder("stranger"),
      LEMON_CONTROLLER: `wss://localhost:${up.port}`,
      LEMON_WS_TOKEN: token,
      LEMON_CA_FILE: authority,
    });
    expect(trusting.exitCode, trusting.stderr).to.equal(0);
  });

  it("keeps its certificate on SIGHUP when the new one can not be used, and says why", async () => {
    const { cert, key } = files(stage);
    const { near } = TEST_ISSUED;
    cert(TEST_ISSUED.expired);
    await signal("the certificate that is served stays: --tls-key does not belong to");
    key(TEST_ISSUED.far.key);
    await signal("the certificate that is served stays: The certificate of --tls-cert expired");
    cert(TEST_ISSUED.far.cert);
    key(TEST_ISSUED.far.key, 0o644);
    await signal("the certificate that is served stays: --tls-key can be read");
    await client.call("health", {});
    cert(near.cert);
    key(near.key);
    await signal("the certificate was loaded anew");
  });

  it("shows a new one from SIGHUP on without dropping anybody; its own commands know it at once", async () => {
    const { cert, key } = files(stage);
    cert(TEST_ISSUED.far.cert + TEST_ISSUED.authority);
    key(TEST_ISSUED.far.key);
    await signal("the certificate was loaded anew and is valid until 2120-01-01");
    // Neither its name nor its authority is one that this machine knows.
    const status = await stage.lemon(["status"], here());
    expect(status.exitCode, status.stderr).to.equal(0);
    const receipt = await client.call(
      "node.process.run",
      shellRun(node.nodeId, "tls:2", "printf still"),
    );
    expect(Buffer.from(receipt.stdoutBase64 ?? "", "base64").toString()).to.equal("still");
    expect(await connectionBy({ certificate: TEST_ISSUED.far.cert })).to.equal("connected");
    expect(await connectionBy({ certificate: TEST_ISSUED.near.cert })).to.match(
      /can not be reached/,
    );
  });

  it("ends in order, and takes its record back", async () => {
    client.close();
    expect(await node.role.end("SIGTERM")).to.equal(0);
    expect(await up.role.end("SIGTERM")).to.equal(0);
    expect(existsSync(join(up.home, "run", `control-plane-${up.port}.json`))).to.equal(false);
  });
});

describe("a controller whose certificate can not be used", () => {
  it("says so in one line, ends with 1, and has started nothing", async () => {
    await using stage = new RoleStage();
    const { cert, key } = files(stage);
    const home = join(stage.path, "home");
    const refused = async (command: "up" | "start", line: RegExp): Promise<void> => {
      const role = stage.role([command, "--port", "0"], home, {
        LEMON_TLS_CERT: join(stage.path, "cert.pem"),
        LEMON_TLS_KEY: join(stage.path, "key.pem"),
        LEMON_LOG_LEVEL: "warn",
      });
      const said = await role.said("failed");
      expect((await role.ended()).exitCode).to.equal(1);
      expect(said["error"]).to.include({ code: "tls_unusable" });
      expect(role.log).to.match(line);
      expect(stage.living()).to.have.length(0);
      expect(existsSync(home)).to.equal(false);
    };
    await refused("up", /^lemon: --tls-cert can not be read \(ENOENT\)\n$/);
    cert(TEST_ISSUED.expired);
    key(TEST_ISSUED.far.key);
    await refused(
      "start",
      /^lemon: The certificate of --tls-cert expired on 2021-01-01; renew it\n$/,
    );
  });
});
