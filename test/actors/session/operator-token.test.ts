import { chmodSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert } from "chai";
import { loadOperatorToken, tokenComparison } from "../../../actors/session/operator-token.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

describe("the operator's token", () => {
  let folder: TempFolder;
  let home: string;
  let file: string;

  beforeEach(() => {
    folder = tempFolder();
    home = join(folder.path, "lemon");
    file = join(home, "run", "control-plane-4040.token");
  });
  afterEach(() => folder[Symbol.dispose]());

  const load = (given?: string) =>
    loadOperatorToken({
      environment: given === undefined ? {} : { LEMON_CONTROL_PLANE_OPERATOR_TOKEN: given },
      home,
      port: 4040,
    });
  const held = (text: string, mode = 0o600): void => {
    mkdirSync(join(home, "run"), { recursive: true, mode: 0o700 });
    writeFileSync(file, text);
    chmodSync(file, mode);
  };
  const LEGAL = "x".repeat(43);

  it("is the environment's, trimmed, and is then never written to disk", async () => {
    assert.deepEqual(await load("  given-token\n"), { token: "given-token", file: null });
    assert.isUndefined(statSync(home, { throwIfNoEntry: false }));
  });

  it("is the managed file's when the environment's is unset or blank", async () => {
    for (const blank of [undefined, "", " \t\n"]) {
      const { token, file: where } = await load(blank);
      assert.equal(where, file);
      assert.equal(readFileSync(file, "utf8").trim(), token);
    }
  });

  it("has 256 random bits, in a file of mode 0600 below folders of mode 0700", async () => {
    const { token } = await load();
    assert.match(token, /^[A-Za-z0-9_-]{43}$/);
    assert.equal(Buffer.from(token, "base64url").length, 32);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(statSync(join(home, "run")).mode & 0o777, 0o700);
    assert.equal(statSync(home).mode & 0o777, 0o700);
  });

  it("is made once, and stays the same at every later start", async () => {
    const first = await load();
    const { mtimeNs } = statSync(file, { bigint: true });
    assert.deepEqual(await load(), first);
    assert.equal(statSync(file, { bigint: true }).mtimeNs, mtimeNs);
  });

  it("is another one for another port", async () => {
    const { token } = await load();
    const other = await loadOperatorToken({ environment: {}, home, port: 4041 });
    assert.notEqual(other.token, token);
  });

  it("may be one that an earlier release left, in another alphabet", async () => {
    held(`${"0123456789abcdef".repeat(4)}\n`);
    assert.equal((await load()).token, "0123456789abcdef".repeat(4));
  });

  const UNUSABLE: readonly (readonly [string, string, () => void])[] = [
    ["others may read", "mode", () => held(LEGAL, 0o644)],
    ["its group may read", "mode", () => held(LEGAL, 0o640)],
    ["nobody may write", "mode", () => held(LEGAL, 0o400)],
    ["is empty", "content", () => held("")],
    ["is blank", "content", () => held("\n")],
    ["holds less than a token", "content", () => held("x".repeat(31))],
    ["holds more than a line", "content", () => held(`${LEGAL}\n${LEGAL}`)],
    [
      "is a symbolic link",
      "not_regular",
      () => {
        held(LEGAL);
        symlinkSync(file, join(home, "run", "control-plane-4041.token"));
      },
    ],
    ["is a folder", "not_regular", () => mkdirSync(file, { recursive: true, mode: 0o700 })],
    [
      "lies in a folder others may enter",
      "mode",
      () => {
        held(LEGAL);
        chmodSync(join(home, "run"), 0o755);
      },
    ],
  ];
  for (const [what, reason, prepare] of UNUSABLE) {
    it(`is refused, and left as it is, when its file ${what}`, async () => {
      prepare();
      const port = reason === "not_regular" && what.includes("link") ? 4041 : 4040;
      const refused = await refusalOf(() => loadOperatorToken({ environment: {}, home, port }));
      assert.equal(refused.code, "operator_token_unusable");
      assert.equal(refused.details["reason"], reason);
      assert.include(refused.message, `run/control-plane-${port}.token in LEMON_HOME`);
      assert.include(refused.message, "LEMON_CONTROL_PLANE_OPERATOR_TOKEN");
      assert.notInclude(JSON.stringify(refused), folder.path);
      assert.notInclude(refused.message, LEGAL);
    });
  }

  it("is refused when a file stands in the folder's place", async () => {
    mkdirSync(home, { mode: 0o700 });
    writeFileSync(join(home, "run"), "");
    assert.equal((await refusalOf(() => load())).code, "operator_token_unusable");
  });
});

describe("the comparison of tokens", () => {
  it("is true for the very same text alone", () => {
    const isIt = tokenComparison("secret-é");
    assert.isTrue(isIt("secret-é"));
    for (const other of ["", "secret-", "secret-éé", "Secret-é", "secret-é "]) {
      assert.isFalse(isIt(other), other);
    }
  });

  it("takes tokens of any length, whole", () => {
    const long = "x".repeat(100_000);
    assert.isTrue(tokenComparison(long)(long));
    assert.isFalse(tokenComparison(long)(`${long}y`));
  });
});
