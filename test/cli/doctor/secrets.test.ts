import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import {
  checkControllersVault,
  checkMasterKey,
  checkNodesVault,
} from "../../../cli/doctor/secrets.ts";
import { connect } from "../../../client/index.ts";
import { type ErrorCode, LemonError } from "../../../protocol/errors.ts";
import type { ResultOf } from "../../../protocol/methods.ts";
import { vaultStatus } from "../../support/examined-machine.ts";
import { FakeControlPlane } from "../../support/fake-control-plane.ts";
import { NODE_ID } from "../../support/node-rows.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const KEY = Buffer.alloc(32, 7).toString("base64");
const NO_KEYCHAIN = { DBUS_SESSION_BUS_ADDRESS: "" };

describe("the doctor's look at the master key of this machine", () => {
  let folder: TempFolder;
  let home: string;
  let path: string;
  beforeEach(() => {
    folder = tempFolder();
    home = join(folder.path, "home");
    mkdirSync(home, { mode: 0o700 });
    path = join(home, "secrets_master_key");
  });
  afterEach(() => folder[Symbol.dispose]());

  const found = (environment: NodeJS.ProcessEnv = {}) =>
    checkMasterKey(home, { ...NO_KEYCHAIN, ...environment });

  it("says where it comes from, and how to make one where there is none", async () => {
    const none = await found();
    expect([none.level, none.finding]).to.deep.equal([
      "ok",
      "none: `lemon secrets init` makes one where secrets are to be kept for a node",
    ]);
    writeFileSync(path, KEY, { mode: 0o600 });
    expect(await found()).to.deep.include({
      level: "ok",
      finding: "in secrets_master_key of the state folder",
    });
    const { level, finding } = await found({ LEMON_SECRETS_MASTER_KEY: KEY });
    expect([level, finding.split(";")[0]]).to.deep.equal([
      "ok",
      "in LEMON_SECRETS_MASTER_KEY here",
    ]);
  });

  it("fails for one that is too weak, in the file or in the variable, and shows nothing of it", async () => {
    writeFileSync(path, "swordfish", { mode: 0o600 });
    const file = await found();
    expect([file.level, file.finding]).to.deep.equal([
      "fail",
      "what is in secrets_master_key is not base64 of at least 32 bytes",
    ]);
    expect(file.mend).to.include(`rm ${path}`);
    const named = await found({ LEMON_SECRETS_MASTER_KEY: "swordfish" });
    expect(named.finding).to.include("LEMON_SECRETS_MASTER_KEY is not base64");
    expect(named.mend).to.include("unset LEMON_SECRETS_MASTER_KEY");
    expect(JSON.stringify([file, named])).not.to.include("swordfish");
  });

  for (const name of ["secrets_master_key", "secrets_master_key.previous"]) {
    it(`fails when others may read ${name}, and says what mends it`, async () => {
      writeFileSync(path, KEY, { mode: 0o600 });
      writeFileSync(join(home, name), KEY, { mode: 0o600 });
      chmodSync(join(home, name), 0o640);
      const { level, finding, mend } = await found();
      expect([level, finding]).to.deep.equal(["fail", "its file can not be used (mode)"]);
      expect(mend).to.include("chmod 600");
    });
  }
});

describe("the doctor's look at vaults", () => {
  let peer: FakeControlPlane;
  beforeEach(async () => {
    peer = await FakeControlPlane.start({ token: "secret" });
  });
  afterEach(() => peer.stop());

  async function controllers(fields: Partial<ResultOf<"secrets.status">>) {
    peer.on("secrets.status", () => vaultStatus(fields));
    const client = await connect({ url: peer.url, token: "secret", clientId: "test" });
    try {
      return await checkControllersVault(client);
    } finally {
      client.close();
    }
  }

  it("says of the controller's that its key opens what it holds", async () => {
    expect(await controllers({})).to.deep.include({
      level: "ok",
      finding: "2 secrets, and its master key (file) opens them",
    });
  });

  it("takes an empty one without a key for no failure, and any other without one for one", async () => {
    const missing = { healthy: false, source: null, summary: { problem: "secret_key_missing" } };
    expect((await controllers({ ...missing, count: 0 })).level).to.equal("ok");
    expect((await controllers({ ...missing, count: 1 })).level).to.equal("fail");
    expect((await controllers({ ...missing, count: null })).level).to.equal("fail");
  });

  for (const [problem, mend] of [
    ["secret_key_mismatch", "put back the key that they are under"],
    ["secret_store_damaged", "Begin it anew as docs/sre.md says"],
    ["internal_error", "see the controller's log"],
  ] as const) {
    it(`fails for ${problem}, and says what to do`, async () => {
      const found = await controllers({ healthy: false, count: null, summary: { problem } });
      expect([found.level, found.finding]).to.deep.equal(["fail", problem]);
      expect(found.mend).to.include(mend);
    });
  }

  it("names a node's that is damaged or away, and is silent about one that is well or that it may not see", async () => {
    const client = await connect({ url: peer.url, token: "secret", clientId: "test" });
    const refusing = async (code: ErrorCode | null) => {
      peer.on("node.secrets.list", () => {
        if (code !== null) throw new LemonError(code);
        return { names: [], limit: 500, truncated: false };
      });
      return (await checkNodesVault(client, NODE_ID, "v"))?.level ?? null;
    };
    expect(await refusing(null)).to.equal(null);
    expect(await refusing("secret_store_damaged")).to.equal("fail");
    expect(await refusing("secret_store_unavailable")).to.equal("warn");
    expect(await refusing("forbidden")).to.equal(null);
    client.close();
  });
});
