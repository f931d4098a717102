import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import {
  type ControllerRecord,
  readControllerRecords,
  removeControllerRecord,
  writeControllerRecord,
} from "../../cli/controller-record.ts";
import { controllerUrl, isReadableOnTheWay } from "../../cli/controller-url.ts";
import { lemonHome, resolveTarget, type TargetFlags } from "../../cli/target.ts";
import { ownIdentity } from "../../host/process-identity.ts";
import { refusalOf } from "../support/refusal.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";
import { TestShell } from "../support/test-shell.ts";

describe("finding the controller", () => {
  let home: TempFolder;

  beforeEach(() => {
    home = tempFolder();
    chmodSync(home.path, 0o700);
  });
  afterEach(() => home[Symbol.dispose]());

  function record(port: number, fields: Partial<ControllerRecord> = {}): ControllerRecord {
    return { port, ...ownIdentity(), tokenFile: null, ...fields };
  }

  async function announce(port: number, fields: Partial<ControllerRecord> = {}): Promise<void> {
    await writeControllerRecord(home.path, record(port, fields));
  }

  function writeToken(port: number, text: string, mode = 0o600): string {
    const path = join(home.path, "run", `control-plane-${port}.token`);
    mkdirSync(join(home.path, "run"), { recursive: true, mode: 0o700 });
    writeFileSync(path, text);
    chmodSync(path, mode);
    return path;
  }

  const shell = (environment: Readonly<Record<string, string>> = {}) =>
    new TestShell({ environment: { LEMON_HOME: home.path, ...environment }, cwd: home.path });
  const resolve = (flags: TargetFlags = {}, environment: Readonly<Record<string, string>> = {}) =>
    resolveTarget(shell(environment), flags);

  it("takes the one that runs here, with the token of its file", async () => {
    const tokenFile = writeToken(4_041, "managed\n");
    await announce(4_041, { tokenFile });
    expect(await resolve()).to.deep.equal({
      url: "ws://127.0.0.1:4041/ws",
      token: "managed",
      ca: null,
      certificate: null,
      suffix: "",
      warning: null,
    });
  });

  for (const [host, url] of [
    ["0.0.0.0", "ws://127.0.0.1:4041/ws"],
    ["::", "ws://[::1]:4041/ws"],
    ["::1", "ws://[::1]:4041/ws"],
    ["127.0.0.2", "ws://127.0.0.2:4041/ws"],
  ] as const) {
    it(`reaches one that listens on ${host} at ${url}`, async () => {
      await announce(4_041, { host });
      expect((await resolve()).url).to.equal(url);
    });
  }

  it("reaches one with TLS by wss, and knows it by the certificate of its record", async () => {
    const tokenFile = writeToken(4_041, "managed\n");
    const certificate = "the one it shows";
    await announce(4_041, { tokenFile, certificate });
    const found = { url: "wss://127.0.0.1:4041/ws", token: "managed", certificate };
    expect(await resolve()).to.include(found);
    expect(await resolve({ controller: "https://localhost:4041" })).to.include(found);
    const told = { operatorToken: "mine", controller: "wss://127.0.0.1:4041" };
    expect(await resolve(told)).to.include({ ...found, token: "mine" });
  });

  it("gives neither token nor trust to another listener than the one with TLS", async () => {
    await announce(4_041, {
      tokenFile: writeToken(4_041, "managed\n"),
      certificate: "the one it shows",
    });
    const nothing = { token: null, certificate: null };
    expect(await resolve({ controller: "ws://localhost:4041" })).to.include(nothing);
    expect(await resolve({ controller: "wss://localhost:4042" })).to.include(nothing);
    expect(await resolve({ controller: "wss://localhost" })).to.include(nothing);
    expect(await resolve({ controller: "wss://[::1]:4041" })).to.include(nothing);
    expect(await resolve({ controller: "wss://controller.example:4041" })).to.include(nothing);
  });

  it("takes the authorities of the flag, or of LEMON_CA_FILE", async () => {
    const pem = (name: string) => `-----BEGIN CERTIFICATE-----\n${name}\n`;
    writeFileSync(join(home.path, "flag.pem"), pem("flag"));
    writeFileSync(join(home.path, "variable.pem"), pem("variable"));
    const environment = { LEMON_CA_FILE: "variable.pem" };
    const controller = "wss://controller.example";
    const named = await resolve({ controller }, environment);
    expect(named.ca).to.equal(pem("variable"));
    expect(named.suffix).to.not.include("ca-file");
    const flagged = await resolve({ controller, caFile: "flag.pem" }, environment);
    expect(flagged.ca).to.equal(pem("flag"));
  });

  it("takes the token of the environment for one whose token came from there", async () => {
    await announce(4_041);
    const environment = { LEMON_CONTROL_PLANE_OPERATOR_TOKEN: " theirs " };
    expect((await resolve({}, environment)).token).to.equal("theirs");
    expect((await resolve({}, { ...environment, LEMON_WS_TOKEN: "mine" })).token).to.equal("mine");
  });

  it("refuses with 2 to choose among several, and lists them by port", async () => {
    await announce(9_000);
    await announce(4_041);
    const chosen = shell();
    expect(await chosen.run("status")).to.equal(2);
    expect(chosen.stderr.text).to.equal(
      "lemon: Several controllers run here: ws://127.0.0.1:4041/ws, ws://127.0.0.1:9000/ws\n" +
        "lemon: name one with --controller\n",
    );
  });

  it("ends with 1 and says what to do when none runs", async () => {
    const alone = shell();
    expect(await alone.run("status")).to.equal(1);
    expect(alone.stderr.text).to.match(/No controller runs here; start one with `lemon up`/);
  });

  it("ignores one whose process ended, though the pid may be given out again", async () => {
    const ended = spawnSync(process.execPath, ["-e", "0"]);
    await announce(4_041, { pid: ended.pid, startTime: "gone" });
    await announce(4_042, { startTime: "another life under our own pid" });
    await announce(4_043);
    expect((await resolve()).url).to.equal("ws://127.0.0.1:4043/ws");
    expect(
      (await readControllerRecords(home.path)).map((found) => Object.keys(found)[1]),
    ).to.deep.equal(["fault", "fault", "record"]);
  });

  it("ignores records that nobody should trust: readable by others, a link, rubbish", async () => {
    await announce(4_041);
    await announce(4_042);
    await announce(4_043);
    const run = join(home.path, "run");
    chmodSync(join(run, "control-plane-4041.json"), 0o644);
    writeFileSync(join(run, "control-plane-4042.json"), "{");
    symlinkSync("control-plane-4043.json", join(run, "control-plane-4044.json"));
    writeFileSync(join(run, "control-plane-x.json"), "{}");
    expect(await readControllerRecords(home.path)).to.deep.equal([
      { name: "control-plane-4041.json", fault: "foreign" },
      { name: "control-plane-4042.json", fault: "unreadable" },
      { name: "control-plane-4043.json", record: record(4_043) },
      { name: "control-plane-4044.json", fault: "foreign" },
    ]);
    expect((await resolve()).url).to.equal("ws://127.0.0.1:4043/ws");
  });

  it("does not use a token file that others can read", async () => {
    const tokenFile = writeToken(4_041, "managed\n", 0o644);
    await announce(4_041, { tokenFile });
    const refused = await refusalOf(() => resolve());
    expect(refused.code).to.equal("operator_token_unusable");
    expect(refused.message)
      .to.match(/^run\/control-plane-4041\.token in LEMON_HOME can not be used \(mode\)/)
      .and.not.include("managed");
  });

  it("finds the local token for a loopback address that names the controller here, and for no other", async () => {
    const tokenFile = writeToken(4_041, "managed\n");
    await announce(4_041, { tokenFile });
    expect((await resolve({ controller: "ws://localhost:4041" })).token).to.equal("managed");
    expect((await resolve({ controller: "ws://localhost:4042" })).token).to.equal(null);
    expect((await resolve({ controller: "wss://localhost:4041" })).token).to.equal(null);
    expect((await resolve({ controller: "wss://controller.example:4041" })).token).to.equal(null);
  });

  it("gives the local token to no other listener of the same port", async () => {
    const tokenFile = writeToken(4_041, "managed\n");
    const given = async (host: string, controller: string) => {
      await announce(4_041, { tokenFile, host });
      const { token, url } = await resolve({ controller });
      return token === null ? null : url;
    };
    expect(await given("127.0.0.1", "ws://[::1]:4041")).to.equal(null);
    expect(await given("127.0.0.1", "ws://127.0.0.2:4041")).to.equal(null);
    expect(await given("::1", "ws://127.0.0.1:4041")).to.equal(null);
    expect(await given("::1", "ws://[::1]:4041")).to.equal("ws://[::1]:4041/ws");
    expect(await given("0.0.0.0", "ws://127.0.0.2:4041")).to.equal("ws://127.0.0.2:4041/ws");
    expect(await given("0.0.0.0", "ws://[::1]:4041")).to.equal(null);
    expect(await given("::", "ws://[::1]:4041")).to.equal("ws://[::1]:4041/ws");
    // The name may stand for an address that somebody else listens on.
    expect(await given("127.0.0.1", "ws://localhost:4041")).to.equal("ws://127.0.0.1:4041/ws");
    expect(await given("::1", "ws://localhost:4041/ws")).to.equal("ws://[::1]:4041/ws");
  });

  it("prints for later what leads to the same controller, and never a token", async () => {
    writeFileSync(join(home.path, "my token"), "secret\n");
    writeFileSync(join(home.path, "ca.pem"), "-----BEGIN CERTIFICATE-----\n");
    const controller = "wss://controller.example/ws";
    const suffix = async (flags: TargetFlags) => (await resolve({ controller, ...flags })).suffix;
    const to = ` --controller ${controller}`;
    expect(await suffix({})).to.equal(to);
    expect(await suffix({ operatorToken: "secret" })).to.equal(to);
    expect(await suffix({ operatorTokenFile: "my token", caFile: "ca.pem" })).to.equal(
      `${to} --operator-token-file 'my token' --ca-file ca.pem`,
    );
  });

  it("goes by the flag, then the variable, then what runs here", async () => {
    await announce(4_041);
    const environment = { LEMON_CONTROLLER: "wss://variable.example" };
    const flagged = await resolve({ controller: "https://flag.example/lemon/ws" }, environment);
    expect(flagged.url).to.equal("wss://flag.example/lemon/ws");
    expect(flagged.suffix).to.equal(" --controller wss://flag.example/lemon/ws");
    const named = await resolve({}, environment);
    expect(named.url).to.equal("wss://variable.example/ws");
    expect(named.suffix).to.equal("");
  });

  it("takes the token of the flag, of a file, or of the variable", async () => {
    const controller = "wss://controller.example";
    writeFileSync(join(home.path, "token"), "filed\n");
    const environment = { LEMON_WS_TOKEN: "variable" };
    const token = async (flags: TargetFlags) =>
      (await resolve({ controller, ...flags }, environment)).token;
    expect(await token({ operatorToken: "flag" })).to.equal("flag");
    expect(await token({ operatorTokenFile: "token" })).to.equal("filed");
    expect(await token({})).to.equal("variable");
  });

  for (const [name, flags, message] of [
    ["two tokens", { operatorToken: "a", operatorTokenFile: "b" }, /exclude each other/],
    ["a token file that is not there", { operatorTokenFile: "gone" }, /\(ENOENT\)/],
    ["a token file that is a folder", { operatorTokenFile: "." }, /\(EISDIR\)/],
    ["a token file without an end", { operatorTokenFile: "/dev/zero" }, /at most 4096 bytes/],
    ["a token file with two words", { operatorTokenFile: "two" }, /does not hold one token/],
    ["a CA file without a certificate", { caFile: "two" }, /holds no PEM certificate/],
  ] as const) {
    it(`refuses with 2 ${name}`, async () => {
      writeFileSync(join(home.path, "two"), "one two\n");
      const refused = await refusalOf(() => resolve({ controller: "wss://c.example", ...flags }));
      expect(refused.constructor.name).to.equal("UsageError");
      expect(refused.message).to.match(message);
    });
  }

  it("warns of a token that can be read on the way", async () => {
    const flags = { controller: "ws://controller.example", operatorToken: "secret" };
    const { warning } = await resolve(flags);
    expect(warning)
      .to.match(/readable/)
      .and.not.include("secret");
    expect((await resolve({ ...flags, controller: "wss://controller.example" })).warning).to.equal(
      null,
    );
    expect((await resolve({ ...flags, controller: "ws://127.0.0.1:1" })).warning).to.equal(null);
    expect((await resolve({ controller: "ws://controller.example" })).warning).to.equal(null);
  });

  it("takes its own record back, and leaves that of a successor on the same port", async () => {
    const own = record(4_041);
    await writeControllerRecord(home.path, own);
    await writeControllerRecord(home.path, { ...own, startTime: "successor" });
    await removeControllerRecord(home.path, own);
    expect(await readControllerRecords(home.path)).to.have.length(1);
    await writeControllerRecord(home.path, own);
    await removeControllerRecord(home.path, own);
    expect(await readControllerRecords(home.path)).to.deep.equal([]);
    await removeControllerRecord(home.path, own);
  });

  it("looks in LEMON_HOME, relative to where the user stands, else in ~/.lemon", () => {
    const at = (environment: Readonly<Record<string, string>>) =>
      lemonHome(new TestShell({ environment, cwd: "/work", homeDirectory: "/home/u" }));
    expect(at({})).to.equal("/home/u/.lemon");
    expect(at({ LEMON_HOME: " " })).to.equal("/home/u/.lemon");
    expect(at({ LEMON_HOME: "state" })).to.equal("/work/state");
    expect(at({ LEMON_HOME: "/srv/lemon" })).to.equal("/srv/lemon");
  });
});

describe("a controller's URL", () => {
  for (const [text, url] of [
    ["ws://127.0.0.1:4040/ws", "ws://127.0.0.1:4040/ws"],
    ["ws://127.0.0.1:4040", "ws://127.0.0.1:4040/ws"],
    ["https://controller.example/", "wss://controller.example/ws"],
    ["http://[::1]:4040", "ws://[::1]:4040/ws"],
    ["wss://controller.example/tenant/ws", "wss://controller.example/tenant/ws"],
  ] as const) {
    it(`reads ${text} as ${url}`, () => {
      expect(controllerUrl("--controller", text)).to.equal(url);
    });
  }

  for (const text of [
    "",
    "controller.example",
    "127.0.0.1:4040",
    "ftp://controller.example",
    "wss://user:secret@controller.example",
    "wss://controller.example/ws?token=x",
    "wss://controller.example/ws#x",
    "ws://",
  ]) {
    it(`refuses ${JSON.stringify(text)}`, async () => {
      const refused = await refusalOf(() => controllerUrl("--controller", text));
      expect(refused.message)
        .to.match(/^--controller/)
        .and.not.include("secret");
    });
  }

  for (const [url, readable] of [
    ["ws://127.0.0.1:1/ws", false],
    ["ws://127.255.255.254/ws", false],
    ["ws://[::1]/ws", false],
    ["ws://localhost/ws", false],
    ["wss://controller.example/ws", false],
    ["ws://controller.example/ws", true],
    ["ws://localhost.example/ws", true],
    ["ws://128.0.0.1/ws", true],
    ["ws://0.0.0.0/ws", true],
    ["ws://127.0.0.1.example/ws", true],
  ] as const) {
    it(`is ${readable ? "" : "not "}readable on the way to ${url}`, () => {
      expect(isReadableOnTheWay(url)).to.equal(readable);
    });
  }
});
