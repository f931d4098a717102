import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  existsSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { lockDirectory, lockFile } from "../../../host/file-lock.ts";
import { managedToken, RoleStage, type StartedController } from "../../support/role-stage.ts";

const isRoot = process.geteuid?.() === 0;

describe("a role that can not start", () => {
  let stage: RoleStage;
  /** A home that has served before, and the port it served on. */
  let home: string;
  let port: number;

  before(async () => {
    stage = new RoleStage();
    const up = await stage.controller("up");
    await up.role.said("probe");
    await up.role.end("SIGTERM");
    ({ home, port } = up);
  });
  after(() => stage[Symbol.asyncDispose]());

  interface Refusal {
    readonly words?: readonly string[];
    readonly home?: string;
    readonly environment?: Readonly<Record<string, string>>;
    readonly code: string;
    readonly line: RegExp;
    readonly exitCode?: number;
    /** What lives meanwhile, of this stage. */
    readonly besides?: number;
  }

  async function expectRefused(refusal: Refusal): Promise<void> {
    const { words = ["up", "--port", String(port)], exitCode = 1, besides = 0 } = refusal;
    const before = stage.living().length;
    const role = stage.role(words, refusal.home ?? home, {
      LEMON_LOG_LEVEL: "warn",
      ...refusal.environment,
    });
    const said = await role.said("failed");
    expect((await role.ended()).exitCode).to.equal(exitCode);
    expect(role.log).to.match(/^lemon: [^\n]*\n$/);
    expect(role.log).to.match(refusal.line);
    expect(said["error"]).to.deep.equal({
      code: refusal.code,
      message: role.log.slice("lemon: ".length, -1),
    });
    // Nothing is half-started: no process, no record that commands would follow.
    expect(stage.living()).to.have.length(before);
    const records = readdirSync(join(home, "run")).filter((name) => name.endsWith(".json"));
    expect(records).to.have.length(besides);
  }

  it("tells of a port that is taken, and leaves whoever has it alone", async () => {
    const listener = createServer();
    listener.listen(0, "127.0.0.1");
    await once(listener, "listening");
    const address = listener.address();
    const taken = typeof address === "object" ? address?.port : undefined;
    await expectRefused({
      words: ["up", "--port", String(taken)],
      code: "port_in_use",
      line: new RegExp(`Port ${taken} is already in use on 127\\.0\\.0\\.1; .*--port`),
    });
    expect(listener.listening).to.equal(true);
    listener.close();
  });

  it("tells what is wrong with a state folder", async () => {
    const file = join(stage.path, "file");
    writeFileSync(file, "");
    const open = stage.folder("open");
    chmodSync(open, 0o755);
    const unusable: [string, RegExp][] = [
      [file, /LEMON_HOME can not be used: it is not a folder/],
      [join(file, "below"), /LEMON_HOME can not be used: it is not a folder/],
      [open, /LEMON_HOME can not be used: others may enter it; give it mode 0700/],
      ["/proc/lemon", /LEMON_HOME can not be used: it can not be made/],
    ];
    if (isRoot) {
      const foreign = stage.folder("foreign");
      chownSync(foreign, 12_345, 12_345);
      unusable.push([foreign, /LEMON_HOME can not be used: it belongs to another account/]);
    } else {
      unusable.push(["/", /LEMON_HOME can not be used: it belongs to another account/]);
      const closed = stage.folder("closed");
      chmodSync(closed, 0o500);
      unusable.push([join(closed, "home"), /LEMON_HOME can not be used: this account may not/]);
    }
    for (const [unusableHome, line] of unusable) {
      await expectRefused({ home: unusableHome, code: "home_unusable", line });
    }
  });

  it("tells of a nats-server that is missing, too old, or no such thing", async () => {
    const script = (name: string, text: string, mode = 0o755): string => {
      const path = join(stage.path, name);
      writeFileSync(path, `#!/bin/sh\n${text}\n`, { mode });
      return path;
    };
    const unusable: [string, string, RegExp][] = [
      [join(stage.path, "missing"), "nats_server_missing", /does not exist/],
      [
        script("old", "echo 'nats-server: v2.9.10'"),
        "nats_server_too_old",
        /nats-server 2\.9\.10 at .* is too old, 2\.12\.7 or newer is needed/,
      ],
      [script("plain", "exit 0", 0o644), "nats_server_failed", /may not be executed/],
      [script("other", "echo hello"), "nats_server_failed", /does not run as a nats-server/],
      [
        script("broken", '[ "$1" = --version ] && echo "nats-server: v2.15.1"'),
        "nats_server_failed",
        /nats-server did not start/,
      ],
    ];
    for (const [path, code, line] of unusable) {
      await expectRefused({ environment: { LEMON_NATS_SERVER: path }, code, line });
    }
  });

  it("tells that somebody else holds the hub's store, and signals nobody", async () => {
    const lock = lockDirectory(join(home, "controller", "hub", "store"));
    expect(lock).to.not.equal(null);
    await expectRefused({ code: "store_in_use", line: /Another process holds this store/ });
    lock?.release();
  });

  it("tells of keys that are damaged or lost, and makes no new ones in their place", async () => {
    const keys = join(home, "controller", "keys", "authority.json");
    const whole = readFileSync(keys);
    writeFileSync(keys, whole.subarray(0, 100));
    await expectRefused({
      code: "controller_keys_lost",
      line: /The controller's keys are damaged; restore them from a copy/,
    });
    expect(readFileSync(keys)).to.deep.equal(whole.subarray(0, 100));
    writeFileSync(keys, whole);
    chmodSync(keys, 0o644);
    await expectRefused({
      code: "permission_denied",
      line: /\(mode\); below LEMON_HOME all must be/,
    });
    chmodSync(keys, 0o600);
  });

  describe("beside one that serves", () => {
    let serving: StartedController;
    before(async () => {
      // Nothing that was refused above holds a lock or the port.
      const role = stage.role(["up", "--port", String(port)], home);
      const ready = await role.said("ready");
      await role.said("probe");
      serving = { role, home, ready, port, url: String(ready["url"]) };
    });

    it("tells that the controller of this home is served already", async () => {
      await expectRefused({
        words: ["up", "--port", "0"],
        code: "identity_in_use",
        line: /Another live process already serves the controller of this LEMON_HOME/,
        besides: 1,
      });
    });

    it("tells that the node of this name is served already", async () => {
      await expectRefused({
        words: ["node", "join", "--name", "local", "--controller", serving.url],
        code: "identity_in_use",
        line: /Another live process already serves node local of this LEMON_HOME/,
        besides: 1,
      });
      const join = ["node", "join", "--name", "twin", "--controller", serving.url];
      const token = { LEMON_NODE_OPERATOR_TOKEN: managedToken(serving) };
      const twin = stage.role(join, home, token);
      await twin.said("joined");
      await expectRefused({
        words: join,
        environment: token,
        code: "identity_in_use",
        line: /Another live process already serves node twin of this LEMON_HOME/,
        besides: 1,
      });
      expect(await twin.end("SIGTERM")).to.equal(0);
    });

    it("tells what speaks against a join before a nats-server is looked for or fetched", async () => {
      const fresh = stage.folder("fresh");
      const words = ["node", "join", "--name", "fresh", "--controller", serving.url];
      const nothing = { LEMON_NATS_SERVER: join(stage.path, "missing") };
      await expectRefused({
        words,
        home: fresh,
        environment: nothing,
        code: "unauthorized",
        line: /Operator token is required; join with an operator token \(LEMON_NODE_OPERATOR_TOKEN/,
        exitCode: 2,
        besides: 1,
      });
      await expectRefused({
        words: [...words, "--repair"],
        home: fresh,
        environment: { ...nothing, LEMON_NODE_OPERATOR_TOKEN: managedToken(serving) },
        code: "invalid_params",
        line: /--repair wants --node-id/,
        exitCode: 2,
        besides: 1,
      });
    });

    it("stops the hub it had started when the local node's place is taken", async () => {
      const shared = stage.folder("shared");
      const lock = lockFile(join(stage.folder("shared/nodes/local"), "lock"));
      expect(lock).to.not.equal(null);
      await expectRefused({
        words: ["up", "--port", "0"],
        home: shared,
        code: "identity_in_use",
        line: /Another live process already serves the local node of this LEMON_HOME/,
        besides: 1,
      });
      expect(existsSync(join(shared, "controller", "hub", "server.json"))).to.equal(true);
      lock?.release();
    });

    after(() => serving.role.end("SIGTERM"));
  });
});
