import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { type JoinFlags, joinOptions, startOptions, upOptions } from "../../cli/options.ts";
import { refusalOf } from "../support/refusal.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";
import { TestShell } from "../support/test-shell.ts";

describe("the options of a role", () => {
  let folder: TempFolder;
  let user: string;
  let at: string;

  beforeEach(() => {
    folder = tempFolder();
    user = join(folder.path, "user");
    at = join(folder.path, "at");
    for (const path of ["user", "at", "at/project", "launch", "launch/project"])
      mkdirSync(join(folder.path, path));
    for (const name of ["creds", "key", "ca.pem", "token"])
      writeFileSync(join(at, name), name === "token" ? "filed\n" : "x");
  });
  afterEach(() => folder[Symbol.dispose]());

  const shell = (environment: Readonly<Record<string, string>> = {}) =>
    new TestShell({ environment, cwd: at, homeDirectory: user });
  const environmentOf = (environment: Readonly<Record<string, string>>) => shell(environment);

  it("of lemon up are complete without a single flag", () => {
    expect(upOptions(shell(), {})).to.deep.equal({
      home: join(user, ".lemon"),
      json: false,
      environment: {},
      caFile: null,
      host: "127.0.0.1",
      port: 4_040,
      nats: null,
      tls: null,
      trustedProxies: [],
      allowedOrigins: [],
      cwd: user,
      allowedRoots: [user],
    });
  });

  it("of lemon up take each flag, with paths resolved from where the user stands", () => {
    const options = upOptions(environmentOf({ LEMON_HOME: "state" }), {
      json: true,
      host: "0.0.0.0",
      port: "0",
      cwd: "project",
      allowedRoot: ["project", "/", "project"],
      caFile: "ca.pem",
      nats: "tls://nats.example:4222",
      natsCreds: "creds",
      natsSysCreds: "creds",
      natsOperatorKey: "key",
      natsLeafUrl: "wss://nats.example",
    });
    expect(options).to.deep.include({
      home: join(at, "state"),
      json: true,
      host: "0.0.0.0",
      port: 0,
      cwd: join(at, "project"),
      allowedRoots: [user, join(at, "project"), "/"],
      caFile: join(at, "ca.pem"),
      nats: {
        url: "tls://nats.example:4222",
        credsFile: join(at, "creds"),
        sysCredsFile: join(at, "creds"),
        operatorKeyFile: join(at, "key"),
        leafUrl: "wss://nats.example",
      },
    });
  });

  it("take the variables, and flags before them", () => {
    const environment = { LEMON_CONTROL_PLANE_PORT: "5050", LEMON_NATS_URL: "nats://n" };
    expect(startOptions(environmentOf(environment), {})).to.deep.include({
      port: 5_050,
      nats: {
        url: "nats://n",
        credsFile: null,
        sysCredsFile: null,
        operatorKeyFile: null,
        leafUrl: null,
      },
    });
    expect(startOptions(environmentOf(environment), { port: "6060" }).port).to.equal(6_060);
  });

  for (const [name, make, message] of [
    [
      "a port that is none",
      () => startOptions(environmentOf({ LEMON_CONTROL_PLANE_PORT: "web" }), {}),
      /LEMON_CONTROL_PLANE_PORT wants a port/,
    ],
    [
      "no address at all, which would be every address",
      () => startOptions(shell(), { host: " " }),
      /--host wants an address/,
    ],
    [
      "a root without a name, which would be wherever the user stands",
      () => upOptions(shell(), { allowedRoot: [""] }),
      /--allowed-root must name an existing folder/,
    ],
    ["a cwd without a name", () => upOptions(shell(), { cwd: "" }), /--cwd must name/],
    [
      "NATS credentials without a NATS",
      () => startOptions(shell(), { natsSysCreds: "creds" }),
      /--nats-sys-creds has a meaning only together with --nats/,
    ],
    [
      "NATS credentials that are not there",
      () => startOptions(shell(), { nats: "nats://n", natsCreds: "gone" }),
      /--nats-creds must name an existing file/,
    ],
    [
      "a cwd that is a file",
      () => upOptions(shell(), { cwd: "creds" }),
      /--cwd must name an existing folder/,
    ],
    [
      "a cwd below a file",
      () => upOptions(shell(), { cwd: "creds/below" }),
      /--cwd must name an existing folder/,
    ],
    [
      "a cwd with NUL",
      () => upOptions(shell(), { cwd: "project\0" }),
      /--cwd must name an existing folder/,
    ],
    [
      "a root that is not there",
      () => upOptions(shell(), { allowedRoot: ["gone"] }),
      /--allowed-root must name an existing folder/,
    ],
  ] as const) {
    it(`refuse ${name}`, async () => {
      const refused = await refusalOf(make);
      expect(refused.constructor.name).to.equal("UsageError");
      expect(refused.message).to.match(message);
    });
  }

  it("hold at most 64 roots, the home directory among them", async () => {
    const roots = Array.from({ length: 64 }, (_, index) => {
      mkdirSync(join(at, `r${index}`));
      return `r${index}`;
    });
    expect(upOptions(shell(), { allowedRoot: roots.slice(0, 63) }).allowedRoots).to.have.length(64);
    const refused = await refusalOf(() => upOptions(shell(), { allowedRoot: roots }));
    expect(refused.message).to.match(/at most 64/);
  });

  describe("lemon node join", () => {
    const join_ = (flags: Partial<JoinFlags>, environment: Readonly<Record<string, string>> = {}) =>
      joinOptions(environmentOf(environment), {
        name: "worker-1",
        controller: "wss://controller.example",
        ...flags,
      });

    it("are complete with a name and a controller", async () => {
      expect(await join_({})).to.deep.equal({
        home: join(user, ".lemon"),
        json: false,
        environment: {},
        caFile: null,
        cwd: user,
        allowedRoots: [user],
        name: "worker-1",
        controller: "wss://controller.example/ws",
        operatorToken: null,
        token: null,
        pair: false,
        nodeId: null,
        repair: false,
        allowInsecureController: false,
      });
    });

    it("take each flag", async () => {
      const options = await join_({
        operatorToken: "op",
        pair: true,
        nodeId: "id",
        repair: true,
        allowInsecureController: true,
        controller: "ws://controller.example",
        allowedRoot: ["project"],
      });
      expect(options).to.deep.include({
        operatorToken: "op",
        pair: true,
        nodeId: "id",
        repair: true,
        allowInsecureController: true,
        controller: "ws://controller.example/ws",
        allowedRoots: [user, join(at, "project")],
      });
    });

    it("take tokens from files and variables", async () => {
      expect(await join_({ operatorTokenFile: "token" })).to.include({ operatorToken: "filed" });
      expect(await join_({ tokenFile: "token" })).to.include({ token: "filed" });
      const environment = { LEMON_NODE_OPERATOR_TOKEN: "op", LEMON_NODE_TOKEN: "session" };
      expect(await join_({}, environment)).to.include({ operatorToken: "op", token: "session" });
      expect(await join_({ token: "flag" }, environment)).to.include({ token: "flag" });
    });

    it("resolve relative folders from LEMON_NODE_LAUNCH_CWD", async () => {
      const environment = { LEMON_NODE_LAUNCH_CWD: join(folder.path, "launch") };
      const options = await join_({ cwd: "project", allowedRoot: ["project"] }, environment);
      expect(options.cwd).to.equal(join(folder.path, "launch/project"));
      expect(options.allowedRoots).to.deep.equal([user, join(folder.path, "launch/project")]);
    });

    it("take LEMON_CONTROLLER, and demand one", async () => {
      const environment = { LEMON_CONTROLLER: "wss://variable.example" };
      const flags: JoinFlags = { name: "n" };
      expect(await joinOptions(environmentOf(environment), flags)).to.include({
        controller: "wss://variable.example/ws",
      });
      const refused = await refusalOf(() => joinOptions(shell(), flags));
      expect(refused.message).to.match(/needs --controller/);
    });

    it("refuse ws:// beyond loopback without the opt-in", async () => {
      const controller = "ws://controller.example";
      expect((await refusalOf(() => join_({ controller }))).message).to.match(/ws:\/\//);
      expect(await join_({ controller: "ws://127.0.0.1:1" })).to.be.an("object");
      expect(await join_({ controller, allowInsecureController: true })).to.be.an("object");
      const environment = { LEMON_NODE_ALLOW_INSECURE_CONTROLLER: "true" };
      expect(await join_({ controller }, environment)).to.include({
        allowInsecureController: true,
      });
    });

    for (const [name, flags, message] of [
      ["a blank name", { name: " " }, /--name must not be empty/],
      ["a name with control characters", { name: "a\u001b" }, /--name must not contain control/],
      ["a name of 129 characters", { name: "a".repeat(129) }, /--name must be at most 128/],
      ["a name that leads elsewhere", { name: "../x" }, /--name must not contain \//],
      [
        "a session and an operator's token",
        { token: "a", operatorToken: "b" },
        /--token joins with/,
      ],
      ["a session and a pairing", { token: "a", pair: true }, /--token joins with/],
      ["a token twice", { token: "a", tokenFile: "token" }, /given once/],
    ] as const) {
      it(`refuse ${name}`, async () => {
        const refused = await refusalOf(() => join_(flags));
        expect(refused.constructor.name).to.equal("UsageError");
        expect(refused.message).to.match(message);
      });
    }
  });
});
