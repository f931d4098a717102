import {
  chmodSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { createAccount, createUser, type KeyPair } from "@nats-io/nkeys";
import { expect } from "chai";
import { AccountRecords } from "../../../transport/keys/account-records.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const seedOf = (pair: KeyPair): string => new TextDecoder().decode(pair.getSeed());

describe("the records of nodes' accounts", () => {
  let temporary: TempFolder;
  let folder: string;
  beforeEach(() => {
    temporary = tempFolder();
    folder = join(temporary.path, "accounts");
  });
  afterEach(() => temporary[Symbol.dispose]());

  /** One record, written, and its file. */
  async function written() {
    const { store } = await AccountRecords.open(folder);
    const record = {
      ...AccountRecords.make("node"),
      revocations: { [createUser().getPublicKey()]: 1_700_000_000 },
    };
    await store.write(record);
    return { store, record, file: join(folder, `${record.key}.json`) };
  }

  it("are read back as they were written, and not once they were deleted", async () => {
    const { store, record } = await written();
    const removed = { ...AccountRecords.make("local-node"), removed: true };
    await store.write(removed);
    const { records } = await AccountRecords.open(folder);
    const plain = ({ signing, ...rest }: (typeof records)[number]) => ({
      ...rest,
      signing: signing.getPublicKey(),
    });
    expect(records.map(plain)).to.have.deep.members([record, removed].map(plain));
    await store.delete(record.key);
    await store.delete(record.key);
    expect((await AccountRecords.open(folder)).records.map(({ key }) => key)).to.deep.equal([
      removed.key,
    ]);
  });

  it("are rid of what a killed writer left, and of nothing else", async () => {
    const { file } = await written();
    writeFileSync(join(folder, ".half.json.0011.tmp"), "half", { mode: 0o600 });
    writeFileSync(join(folder, "note"), "somebody's", { mode: 0o600 });
    expect((await AccountRecords.open(folder)).records).to.have.length(1);
    expect(readdirSync(folder).sort()).to.deep.equal([`${file.slice(folder.length + 1)}`, "note"]);
  });

  for (const [what, harm] of [
    ["others may read", (file: string) => chmodSync(file, 0o640)],
    [
      "is a link to another",
      (file: string) => {
        renameSync(file, `${file}.kept`);
        symlinkSync(`${file}.kept`, file);
      },
    ],
  ] as const) {
    it(`are refused when one ${what}`, async () => {
      const { file } = await written();
      harm(file);
      const refused = await refusalOf(() => AccountRecords.open(folder));
      expect(refused.code).to.equal("permission_denied");
    });
  }

  it("are refused when others may enter their folder", async () => {
    await written();
    chmodSync(folder, 0o750);
    expect((await refusalOf(() => AccountRecords.open(folder))).code).to.equal("permission_denied");
  });

  for (const [what, changed] of [
    ["no version", { version: undefined }],
    ["a version to come", { version: 2 }],
    ["another account's key", { key: createAccount().getPublicKey() }],
    ["a key that is none", { key: "A" }],
    ["a kind that nobody knows", { kind: "hub" }],
    ["no seed", { seed: undefined }],
    ["a user's seed", { seed: seedOf(createUser()) }],
    ["a seed of which a letter is another", { seed: seedOf(createAccount()).replace(/.$/, "1") }],
    ["revocations that are a list", { revocations: [] }],
    ["a revocation of all", { revocations: { "*": 1 } }],
    ["a revocation at no time", { revocations: { [createUser().getPublicKey()]: "now" } }],
    ["no word whether it was removed", { removed: undefined }],
  ] as const) {
    it(`are refused when one has ${what}, and quoted by no error`, async () => {
      const { file } = await written();
      const stored = JSON.parse(readFileSync(file, "utf8"));
      writeFileSync(file, JSON.stringify({ ...stored, ...changed }), { mode: 0o600 });
      const refused = await refusalOf(() => AccountRecords.open(folder));
      expect([refused.code, refused.details]).to.deep.equal([
        "controller_keys_lost",
        { reason: "damaged" },
      ]);
      expect(`${refused.stack}${JSON.stringify(refused.details)}`).not.to.include(stored.seed);
      expect(refused.cause).to.equal(undefined);
    });
  }

  it("are refused when one is empty or half", async () => {
    const { file } = await written();
    const whole = readFileSync(file, "utf8");
    for (const text of ["", whole.slice(0, whole.length / 2), "null", "[]"]) {
      writeFileSync(file, text, { mode: 0o600 });
      expect((await refusalOf(() => AccountRecords.open(folder))).code).to.equal(
        "controller_keys_lost",
      );
    }
  });
});
