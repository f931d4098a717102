import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { APP_SERVICE_BAND } from "../../../protocol/host-agent/routes/accounts.ts";
import { fakeHost, hostRefusal } from "../../support/fake-host.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const bytes = (text: string): Uint8Array => Buffer.from(text);

describe("a fake host's accounts", () => {
  let folder: TempFolder;
  beforeEach(() => {
    folder = tempFolder();
  });
  afterEach(() => folder[Symbol.dispose]());

  it("accept the password that was set last, and say nothing else of any other", async () => {
    const { accounts } = await fakeHost(folder.path);
    await accounts.setPassword("cindy", bytes("first"));
    await accounts.setPassword("cindy", bytes("second"));
    expect(await accounts.verifyPassword("cindy", bytes("second"))).to.equal(true);
    expect(await accounts.verifyPassword("cindy", bytes("first"))).to.equal(false);
    expect(await accounts.verifyPassword("nobody-here", bytes("second"))).to.equal(false);
    expect(await accounts.verifyPassword("__proto__", bytes("second"))).to.equal(false);
  });

  it("know a role without a password, which then verifies nothing", async () => {
    const { accounts } = await fakeHost(folder.path);
    await accounts.setRole("alex", "admin");
    expect(Object.fromEntries(await accounts.roles())).to.deep.equal({ alex: "admin" });
    expect(await accounts.verifyPassword("alex", bytes(""))).to.equal(false);
    await accounts.setPassword("alex", bytes("x"));
    expect(Object.fromEntries(await accounts.roles())).to.deep.equal({ alex: "admin" });
  });

  it("derive home and number from the name, until that is deleted", async () => {
    const { accounts } = await fakeHost(folder.path);
    const home = await accounts.home("alex");
    expect(home).to.deep.equal(await accounts.home("alex"));
    expect(home.home_path).to.equal("/home/alex");
    expect(home.uid).to.be.within(3000, 3999);
    expect(await hostRefusal(accounts.home("Not A Name"))).to.equal("unknown-user");
    await accounts.deleteUser("alex");
    await accounts.deleteUser("alex");
    expect(await hostRefusal(accounts.home("alex"))).to.equal("unknown-user");
    await accounts.setPassword("alex", bytes("again"));
    expect(await accounts.home("alex")).to.deep.equal(home);
  });

  it("give an instance one number of the band, and each number once, until the band is full", async () => {
    const { accounts } = await fakeHost(folder.path);
    const first = await accounts.allocateAppService("navidrome");
    expect(first).to.deep.equal({ uid: 2100, gid: 2100 });
    expect(await accounts.allocateAppService("navidrome")).to.deep.equal(first);
    const rest = [];
    for (let uid = APP_SERVICE_BAND.min + 1; uid <= APP_SERVICE_BAND.max; uid += 1) {
      rest.push((await accounts.allocateAppService(`app-${uid}`)).uid);
    }
    expect(new Set(rest).size).to.equal(APP_SERVICE_BAND.max - APP_SERVICE_BAND.min);
    expect(await hostRefusal(accounts.allocateAppService("one-more"))).to.equal(
      "allocate-app-service-failed",
    );
    await accounts.releaseAppService(2100);
    await accounts.releaseAppService(2100);
    expect(await accounts.allocateAppService("one-more")).to.deep.equal(first);
  });

  it("are kept in the state file, passwords as hashes alone", async () => {
    const stateFile = join(folder.path, "state.json");
    const first = await fakeHost(folder.path, { stateFile });
    await Promise.all([
      first.accounts.setPassword("cindy", bytes("correct horse")),
      first.hostname.set("cellar"),
      first.services.enable("samba"),
    ]);
    expect(readFileSync(stateFile, "utf8")).not.to.include("correct horse");
    const second = await fakeHost(folder.path, { stateFile });
    expect(await second.accounts.verifyPassword("cindy", bytes("correct horse"))).to.equal(true);
    expect(await second.hostname.get()).to.equal("cellar");
    expect(await second.services.state("samba")).to.deep.equal({ enabled: true, running: true });
  });

  it("may have any name that an account can have", async () => {
    const stateFile = join(folder.path, "state.json");
    const { accounts } = await fakeHost(folder.path, { stateFile });
    await accounts.setRole("constructor", "admin");
    expect(await accounts.verifyPassword("constructor", bytes(""))).to.equal(false);
    const again = await fakeHost(folder.path, { stateFile });
    await again.accounts.setPassword("constructor", bytes("x"));
    expect(await again.accounts.verifyPassword("constructor", bytes("x"))).to.equal(true);
    expect(Object.fromEntries(await again.accounts.roles())).to.deep.equal({
      constructor: "admin",
    });
    expect(await hostRefusal(again.accounts.setRole("__proto__", "admin"))).to.equal("bad-request");
    expect(await hostRefusal(again.accounts.home("__proto__"))).to.equal("unknown-user");
  });

  it("may be more than a private file usually holds", async () => {
    const stateFile = join(folder.path, "state.json");
    const { accounts } = await fakeHost(folder.path, { stateFile });
    await accounts.setRole("cindy", "admin");
    const deleted = Array.from({ length: 3_000 }, (_, at) => `${"a".repeat(20)}${at}`);
    const state = JSON.parse(readFileSync(stateFile, "utf8"));
    writeFileSync(stateFile, JSON.stringify({ ...state, deleted }));
    const again = await fakeHost(folder.path, { stateFile });
    await again.accounts.setRole("alex", "member");
    expect(statSync(stateFile).size).to.be.above(65_536);
    const last = await fakeHost(folder.path, { stateFile });
    expect((await last.accounts.roles()).size).to.equal(2);
  });

  it("are as they were when a change could not be kept", async () => {
    const stateFile = join(folder.path, "gone", "state.json");
    mkdirSync(join(folder.path, "gone"), { mode: 0o700 });
    const { accounts, hostname } = await fakeHost(folder.path, { stateFile });
    rmSync(join(folder.path, "gone"), { recursive: true });
    expect((await refusalOf(() => accounts.setRole("alex", "admin"))).code).to.equal("not_found");
    expect((await accounts.roles()).size).to.equal(0);
    mkdirSync(join(folder.path, "gone"), { mode: 0o700 });
    await hostname.set("cellar");
    expect(readFileSync(stateFile, "utf8")).not.to.include("alex");
  });

  it("do not start over a state file that is not theirs", async () => {
    const stateFile = join(folder.path, "state.json");
    writeFileSync(stateFile, '{"accounts": 1}', { mode: 0o600 });
    const refusal = await refusalOf(() => fakeHost(folder.path, { stateFile }));
    expect(refusal.code).to.equal("home_unusable");
    expect(readFileSync(stateFile, "utf8")).to.equal('{"accounts": 1}');
  });
});
