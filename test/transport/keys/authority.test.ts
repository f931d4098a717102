import { execFile } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { type Account, decode, type Operator, type User } from "@nats-io/jwt";
import { expect } from "chai";
import { type Authority, openAuthority } from "../../../transport/keys/authority.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const KILL_AT = fileURLToPath(new URL("../../support/kill-at.ts", import.meta.url));
const OPEN_AUTHORITY = fileURLToPath(new URL("../../support/open-authority.ts", import.meta.url));

describe("the controller's keys", () => {
  let folder: TempFolder;
  beforeEach(() => {
    folder = tempFolder();
  });
  afterEach(() => folder[Symbol.dispose]());

  const at = (...parts: string[]): string => join(folder.path, ...parts);
  const open = (path = folder.path): Promise<Authority> =>
    openAuthority({
      keysFolder: join(path, "keys"),
      recordsFolder: join(path, "accounts"),
      resolverFolder: join(path, "jwt"),
    });
  /** Every file below a folder, by its relative path. */
  const files = (path = folder.path): string[] =>
    readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(path, join(entry.parentPath, entry.name)))
      .sort();

  it("are made on the first start and are the same ever after", async () => {
    const first = await open();
    const second = await open();
    expect(second.systemAccount).to.equal(first.systemAccount);
    expect(second.controllerAccount).to.equal(first.controllerAccount);
    expect(decode(second.operatorJwt).sub).to.equal(decode(first.operatorJwt).sub);
  });

  it("lie in one private file, beside a resolver seeded with the two accounts", async () => {
    const { systemAccount, controllerAccount } = await open();
    expect(files()).to.deep.equal(
      [`jwt/${controllerAccount}.jwt`, `jwt/${systemAccount}.jwt`, "keys/authority.json"].sort(),
    );
    expect(statSync(at("keys")).mode & 0o777).to.equal(0o700);
    expect(statSync(at("keys/authority.json")).mode & 0o777).to.equal(0o600);
  });

  it("make an operator that names its system account, and accounts that it signed", async () => {
    const authority = await open();
    const operator = decode<Operator>(authority.operatorJwt);
    expect(operator.nats.system_account).to.equal(authority.systemAccount);
    for (const key of [authority.systemAccount, authority.controllerAccount]) {
      const account = decode<Account>(readFileSync(at("jwt", `${key}.jwt`), "utf8"));
      expect([account.sub, account.iss]).to.deep.equal([key, operator.sub]);
    }
  });

  it("let the controller's account offer each node its own two subject trees, by the account's key", async () => {
    const { controllerAccount } = await open();
    const { nats } = decode<Account>(readFileSync(at("jwt", `${controllerAccount}.jwt`), "utf8"));
    expect(
      nats.exports?.map(({ subject, type, account_token_position, response_threshold }) => [
        subject,
        type,
        account_token_position,
        response_threshold,
      ]),
    ).to.deep.equal([
      ["node.*.>", "stream", 2, undefined],
      ["ctl.*.>", "service", 2, 5_000_000_000],
    ]);
  });

  it("make users for plain connections only, of the two accounts", async () => {
    const authority = await open();
    for (const [credentials, account] of [
      [authority.systemCredentials, authority.systemAccount],
      [authority.controllerCredentials, authority.controllerAccount],
    ] as const) {
      const user = decode<User>(credentials.jwt);
      expect(user.iss).to.equal(account);
      expect(user.nats.allowed_connection_types).to.deep.equal(["STANDARD"]);
    }
  });

  it("leave a resolver alone that has what it needs, and mend one account that is missing or other", async () => {
    const { systemAccount, controllerAccount } = await open();
    const paths = [at("jwt", `${systemAccount}.jwt`), at("jwt", `${controllerAccount}.jwt`)];
    const before = paths.map((path) => readFileSync(path, "utf8"));
    await open();
    expect(paths.map((path) => readFileSync(path, "utf8"))).to.deep.equal(before);

    const [system = "", controller = ""] = paths;
    rmSync(system);
    writeFileSync(controller, readFileSync(controller, "utf8").replace(/^[^.]+\.[^.]+/, "e30.e30"));
    await open();
    expect(decode(readFileSync(system, "utf8")).sub).to.equal(systemAccount);
    expect(decode(readFileSync(controller, "utf8")).sub).to.equal(controllerAccount);
  });

  it("seed a resolver again that lost its folder", async () => {
    const { systemAccount } = await open();
    rmSync(at("jwt"), { recursive: true });
    await open();
    expect(readdirSync(at("jwt"))).to.include(`${systemAccount}.jwt`);
  });

  describe("are never made anew", () => {
    it("beside a resolver that an earlier operator's accounts lie in", async () => {
      await open();
      rmSync(at("keys"), { recursive: true });
      const before = files();
      const refusal = await refusalOf(() => open());
      expect(refusal).to.deep.include({
        code: "controller_keys_lost",
        details: { reason: "missing" },
      });
      expect(refusal.message).not.to.include(folder.path);
      expect(files()).to.deep.equal(before);
    });

    it("beside the records of nodes' accounts", async () => {
      mkdirSync(at("accounts"));
      writeFileSync(at("accounts", "A.json"), "{}");
      expect(await refusalOf(() => open())).to.deep.include({
        code: "controller_keys_lost",
        details: { reason: "missing" },
      });
    });

    for (const [name, content] of Object.entries({
      empty: "",
      "no JSON": "{",
      "another version": '{"version":2}',
      "without keys": '{"version":1}',
    })) {
      it(`in place of a file that is ${name}`, async () => {
        await open();
        writeFileSync(at("keys/authority.json"), content);
        expect(await refusalOf(() => open())).to.deep.include({
          code: "controller_keys_lost",
          details: { reason: "damaged" },
        });
        expect(readFileSync(at("keys/authority.json"), "utf8")).to.equal(content);
      });
    }

    it("in place of a file in which one bit of a seed is another, or two seeds have changed places", async () => {
      await open();
      const stored: Record<string, string> = JSON.parse(
        readFileSync(at("keys/authority.json"), "utf8"),
      );
      const { operator = "", system = "" } = stored;
      const middle = 20;
      const other = operator[middle] === "A" ? "B" : "A";
      const flipped = `${operator.slice(0, middle)}${other}${operator.slice(middle + 1)}`;
      for (const changed of [
        { ...stored, operator: flipped },
        { ...stored, operator: system, system: operator },
        { ...stored, systemUser: 7 },
      ]) {
        writeFileSync(at("keys/authority.json"), JSON.stringify(changed));
        expect(await refusalOf(() => open())).to.deep.include({
          code: "controller_keys_lost",
          details: { reason: "damaged" },
        });
      }
    });
  });

  it("are refused beside a resolver whose accounts another operator signed", async () => {
    using other = tempFolder();
    await open();
    await open(other.path);
    const refusal = await refusalOf(() =>
      openAuthority({
        keysFolder: at("keys"),
        recordsFolder: at("accounts"),
        resolverFolder: join(other.path, "jwt"),
      }),
    );
    expect(refusal).to.deep.include({
      code: "controller_keys_lost",
      details: { reason: "foreign" },
    });
  });

  it("are refused when others could have read or changed them", async () => {
    await open();
    chmodSync(at("keys/authority.json"), 0o640);
    expect((await refusalOf(() => open())).code).to.equal("permission_denied");
    chmodSync(at("keys/authority.json"), 0o600);
    chmodSync(at("keys"), 0o750);
    expect((await refusalOf(() => open())).code).to.equal("permission_denied");
    chmodSync(at("keys"), 0o700);
    writeFileSync(at("elsewhere"), readFileSync(at("keys/authority.json")), { mode: 0o600 });
    rmSync(at("keys/authority.json"));
    symlinkSync(at("elsewhere"), at("keys/authority.json"));
    expect((await refusalOf(() => open())).code).to.equal("permission_denied");
  });

  it("survive a kill -9 between any two changes of the disk: the next start heals, with the keys that were there", async () => {
    /** Runs the program until its n-th change; false when it made fewer and ended by itself. */
    const killedAt = async (moment: number): Promise<boolean> => {
      using own = tempFolder();
      const killed = await new Promise<boolean>((resolve) => {
        execFile(
          process.execPath,
          ["--import", KILL_AT, OPEN_AUTHORITY, own.path],
          { env: { ...process.env, LEMON_KILL_AT: String(moment) } },
          (error) => resolve(error?.signal === "SIGKILL"),
        );
      });
      const file = join(own.path, "keys", "authority.json");
      const before = existsSync(file) ? readFileSync(file, "utf8") : null;
      const { systemAccount, controllerAccount } = await open(own.path);
      if (before !== null) expect(readFileSync(file, "utf8")).to.equal(before);
      expect(files(own.path), `after a kill before change ${moment}`).to.deep.equal(
        [`jwt/${controllerAccount}.jwt`, `jwt/${systemAccount}.jwt`, "keys/authority.json"].sort(),
      );
      return killed;
    };

    let moments = 0;
    for (let more = true; more; ) {
      const batch = Array.from({ length: 4 }, (_, at) => killedAt(moments + at));
      const killed = await Promise.all(batch);
      moments += killed.filter(Boolean).length;
      more = !killed.includes(false);
    }
    // Two folders and three files, each written, synced and renamed.
    expect(moments).to.be.above(12);
  });
});
