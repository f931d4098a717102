import { join } from "node:path";
import { expect } from "chai";
import { UsageError } from "../../cli/exit.ts";
import { type HostAgentFlags, hostAgentOptions } from "../../cli/host-agent-options.ts";
import { socketGroup } from "../../cli/roles/host-agent-group.ts";
import { refusalOf } from "../support/refusal.ts";
import { TestShell } from "../support/test-shell.ts";

const shell = (environment: Readonly<Record<string, string>> = {}) =>
  new TestShell({ environment, cwd: "/at", homeDirectory: "/home/alex" });

describe("the options of lemon host-agent", () => {
  const options = (flags: HostAgentFlags, environment = {}, isRoot = false) =>
    hostAgentOptions(shell(environment), flags, isRoot);

  it("are root's default places without a flag, and an error for anybody else that names --socket", () => {
    expect(options({}, {}, true)).to.deep.equal({
      home: "/var/lib/malmo/agent",
      json: false,
      environment: {},
      socket: "/var/run/malmo/agent.sock",
      group: "malmo",
      groupIsChosen: false,
      strictGroup: false,
      storeAccount: "malmo-store",
      storeAccountIsChosen: false,
      fake: null,
    });
    expect(() => options({ fake: true })).to.throw(UsageError, "/var/run/malmo/agent.sock");
  });

  it("take the socket from the flag before the variable, from where the user stands", () => {
    const environment = { MALMO_AGENT_SOCK: "/run/a.sock" };
    expect(options({}, environment).socket).to.equal("/run/a.sock");
    expect(options({ socket: "b.sock" }, environment).socket).to.equal("/at/b.sock");
  });

  it("keep a fake's state with its user, whoever that is", () => {
    const fake = { fake: true, socket: "a" };
    expect(options(fake, {}, true).home).to.equal("/home/alex/.lemon");
    expect(options(fake, { LEMON_HOME: "h" }).home).to.equal("/at/h");
    expect(options({ ...fake, state: "s.json", fakeJobMs: "50" }).fake).to.deep.equal({
      stateFile: "/at/s.json",
      jobMs: 50,
      gpu: true,
      storageReport: null,
    });
    const environment = {
      MALMO_STATE_DIR: "/state",
      MALMO_FAKE_NO_GPU: "1",
      MALMO_HEALTH_PATH: "/health.json",
    };
    expect(options(fake, environment).fake).to.deep.equal({
      stateFile: join("/state", "fake-host.json"),
      jobMs: null,
      gpu: false,
      storageReport: "/health.json",
    });
  });

  it("refuse what has a meaning for a fake alone, and a duration that is none", () => {
    for (const flags of [{ state: "s" }, { fakeJobMs: "5" }]) {
      expect(() => options({ socket: "a", ...flags })).to.throw(UsageError, "--fake");
    }
    expect(() => options({ socket: "a", fake: true, fakeJobMs: "soon" })).to.throw(UsageError);
    expect(() => options({ socket: "a", storeAccount: "b" })).to.throw(UsageError, "only root");
    expect(options({ storeAccount: "b" }, {}, true).storeAccount).to.equal("b");
  });
});

describe("the group of the host-agent's socket", () => {
  const group = (members: readonly string[] | null, changes = {}) => {
    const said: string[] = [];
    const find = () => (members === null ? null : { gid: 3000, members });
    const wish = { group: "malmo", required: true, strict: false, ...changes };
    const gid = socketGroup(wish, (line) => said.push(line), find);
    return { gid, said };
  };

  it("is taken without a word when it has exactly one member", () => {
    expect(group(["brain"], { strict: true })).to.deep.equal({ gid: 3000, said: [] });
  });

  it("is warned of, or refused when strict, with another number of members", async () => {
    for (const members of [[], ["brain", "alex"]]) {
      const { gid, said } = group(members);
      expect(gid).to.equal(3000);
      expect(said).to.have.length(1);
      expect(said[0]).to.match(/^WARNING: group malmo has (no member|2 members); /);
      expect((await refusalOf(() => group(members, { strict: true }))).code).to.equal(
        "group_unusable",
      );
    }
  });

  it("may be missing for a fake that nobody asked a group of", async () => {
    expect(group(null, { required: false }).gid).to.equal(null);
    expect(group(null, { required: false }).said).to.have.length(1);
    expect((await refusalOf(() => group(null))).message).to.include("groupadd");
    const strict = { required: false, strict: true };
    expect((await refusalOf(() => group(null, strict))).code).to.equal("group_unusable");
  });
});
