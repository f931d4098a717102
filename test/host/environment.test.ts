import { expect } from "chai";
import { environmentForRuns } from "../../host/environment.ts";

describe("the environment of a run", () => {
  it("is the account's, without what is lemon's, Node's, npm's or the service manager's", () => {
    const kept = {
      PATH: "/bin",
      HOME: "/home/u",
      LANG: "C.UTF-8",
      SSH_AUTH_SOCK: "/s",
      NODEPATH: "x",
    };
    const own = {
      ...kept,
      LEMON_WS_TOKEN: "secret",
      LEMON_CONTROL_PLANE_OPERATOR_TOKEN: "secret",
      MALMO_AGENT_SOCK: "/s",
      NODE_OPTIONS: "--inspect",
      npm_config_cache: "/c",
      INIT_CWD: "/w",
      NOTIFY_SOCKET: "/n",
      LISTEN_FDS: "1",
      WATCHDOG_USEC: "1",
      CREDENTIALS_DIRECTORY: "/run/credentials",
      PWD: "/w",
      OLDPWD: "/",
      SHLVL: "2",
      _: "/usr/bin/node",
      UNSET: undefined,
    };
    expect(environmentForRuns(own)).to.deep.equal(kept);
  });

  it("has a search path even when there was none", () => {
    expect(environmentForRuns({})).to.deep.equal({ PATH: "/usr/local/bin:/usr/bin:/bin" });
  });
});
