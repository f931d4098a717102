import { randomBytes } from "node:crypto";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { assert } from "chai";
import { systemClock } from "../../../host/clock.ts";
import {
  MASTER_KEY_VARIABLE,
  machineKeys,
  PREVIOUS_KEY_VARIABLE,
} from "../../../host/master-key/from-machine.ts";
import { changingKeys, MASTER_KEY_FILE } from "../../../host/master-key/key-file.ts";
import {
  KeychainError,
  type KeyPlace,
  type KeySource,
  type MasterKeys,
  masterKeys,
} from "../../../host/master-key/master-keys.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { Secret } from "../../../protocol/secret.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const base64 = (key: Buffer): string => key.toString("base64");
const textOf = (secret: Secret): string => secret.use((bytes) => Buffer.from(bytes).toString());

/** A keychain in memory, or one that fails. */
function chain(current: string | null, failure: string | null = null): KeyPlace & { text: string } {
  let [now, before] = [current, null as string | null];
  const refuse = (): void => {
    if (failure !== null) throw new KeychainError(failure);
  };
  return {
    get text() {
      return `${now}|${before}`;
    },
    async read() {
      refuse();
      return {
        current: now === null ? null : Secret.ofText(now),
        previous: before === null ? null : Secret.ofText(before),
      };
    },
    async writeCurrent(text) {
      refuse();
      now = textOf(text);
    },
    async writePrevious(text) {
      refuse();
      before = textOf(text);
    },
  };
}

describe("the master key", () => {
  let folder: TempFolder;
  let home: string;
  beforeEach(() => {
    folder = tempFolder();
    home = join(folder.path, "home");
  });
  afterEach(() => folder[Symbol.dispose]());

  const path = (): string => join(home, MASTER_KEY_FILE);
  function keys(environment: NodeJS.ProcessEnv = {}): MasterKeys {
    return machineKeys({ home, environment, clock: systemClock });
  }
  function withChain(keychain: KeyPlace, variable: string | null = null): MasterKeys {
    const current = variable === null ? null : Secret.ofText(variable);
    const file: KeyPlace = chain(null);
    return masterKeys({
      keychain,
      environment: { current, previous: null },
      file,
      exclusively: (change) => change(),
      watch: () => () => {},
    });
  }
  const code = async (attempt: () => Promise<unknown>) => (await refusalOf(attempt)).code;
  async function found(
    from: MasterKeys,
  ): Promise<{ source: KeySource; key: string; previous: string[] } | null> {
    const key = await from.read();
    const hex = (secret: Secret): string =>
      secret.use((bytes) => Buffer.from(bytes).toString("hex"));
    return key && { source: key.source, key: hex(key.key), previous: key.previous.map(hex) };
  }
  function put(text: string): void {
    mkdirSync(home, { mode: 0o700 });
    writeFileSync(path(), text, { mode: 0o600 });
  }

  it("is none at first; one that is made is random, in a file of 0600 in a folder of 0700", async () => {
    assert.isNull(await found(keys()));
    assert.equal(await keys().create(), "file");
    assert.equal(statSync(path()).mode & 0o777, 0o600);
    assert.equal(statSync(home).mode & 0o777, 0o700);
    const made = await found(keys());
    assert.equal(made?.source, "file");
    assert.equal(made?.key, Buffer.from(readFileSync(path(), "utf8"), "base64").toString("hex"));
    assert.lengthOf(made?.key ?? "", 64);
    assert.equal(await code(() => keys().create()), "secret_key_exists");
    assert.deepEqual(await found(keys()), made);
  });

  it("is the keychain's, else the environment's, else the file's", async () => {
    const [one, two, three] = [randomBytes(32), randomBytes(33), randomBytes(64)] as const;
    put(`${base64(three)}\n`);
    assert.deepEqual(await found(keys()), {
      source: "file",
      key: three.toString("hex"),
      previous: [],
    });
    const environment = { [MASTER_KEY_VARIABLE]: base64(two) };
    assert.deepInclude(await found(keys(environment)), { source: "env", key: two.toString("hex") });
    const all = withChain(chain(base64(one)), base64(two));
    assert.deepInclude(await found(all), { source: "keychain", key: one.toString("hex") });
  });

  it("passes over a keychain whose value is unusable, or that fails, and says what is wrong with it", async () => {
    const two = randomBytes(32);
    for (const [keychain, kind] of [
      [chain("too short"), "weak_master_key"],
      [chain(null, "locked"), "locked"],
    ] as const) {
      const from = withChain(keychain, base64(two));
      assert.deepInclude(await found(from), { source: "env", key: two.toString("hex") });
      assert.deepEqual(await from.status(), {
        source: "env",
        keychainAvailable: false,
        keychainErrorKind: kind,
        envFallback: true,
        fileFallback: false,
      });
    }
  });

  it("is refused when it is not base64 of at least 32 bytes", async () => {
    const weak = [
      base64(randomBytes(31)),
      "password",
      "",
      "=",
      `${base64(randomBytes(32))}!`,
      "ä".repeat(50),
    ];
    for (const text of weak) {
      const environment = { [MASTER_KEY_VARIABLE]: text };
      // An empty variable is as good as none.
      if (text !== "") assert.equal(await code(() => keys(environment).read()), "weak_master_key");
      mkdirSync(home, { recursive: true, mode: 0o700 });
      writeFileSync(path(), text, { mode: 0o600 });
      assert.equal(await code(() => keys().read()), "weak_master_key");
      assert.isFalse((await keys().status()).fileFallback);
    }
    assert.equal(await code(() => keys().replace(Secret.take(randomBytes(31)))), "weak_master_key");
  });

  it("is not read from a file that others could have read or put there", async () => {
    put(base64(randomBytes(32)));
    chmodSync(path(), 0o640);
    assert.equal(await code(() => keys().read()), "permission_denied");
    assert.isFalse((await keys().status()).fileFallback);
    const link = join(folder.path, "linked");
    mkdirSync(link, { mode: 0o700 });
    symlinkSync(path(), join(link, MASTER_KEY_FILE));
    const linked = machineKeys({ home: link, environment: {}, clock: systemClock });
    assert.equal(await code(() => linked.read()), "permission_denied");
  });

  it("keeps every key it had beside a new one, the latest first", async () => {
    await keys().create();
    const had = [(await found(keys()))?.key];
    for (let round = 0; round < 10; round += 1) {
      const next = randomBytes(32);
      await keys().replace(Secret.take(Buffer.from(next)));
      const now = await found(keys());
      assert.equal(now?.key, next.toString("hex"));
      assert.deepEqual(now?.previous, had);
      had.unshift(next.toString("hex"));
    }
    assert.equal(statSync(`${path()}.previous`).mode & 0o777, 0o600);
  });

  it("is not replaced when a thousand earlier ones are kept: none is dropped to make room", async () => {
    await keys().create();
    const earlier = Array.from({ length: 999 }, () => base64(randomBytes(32)));
    writeFileSync(`${path()}.previous`, earlier.join("\n"), { mode: 0o600 });
    await keys().replace(Secret.take(randomBytes(32)));
    const full = await found(keys());
    assert.lengthOf(full?.previous ?? [], 1_000);
    assert.equal(
      await code(() => keys().replace(Secret.take(randomBytes(32)))),
      "secret_key_limit",
    );
    assert.deepEqual(await found(keys()), full);
  });

  it("is lost by nobody when several replace it at once, in one process or in others", async () => {
    await keys().create();
    // Each of the three has a descriptor of its own, as another process would.
    const all = [keys(), keys(), keys()];
    const made: string[] = [];
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, async (_, at) => {
        const next = randomBytes(32);
        const outcome = await all[at % all.length]
          ?.replace(Secret.take(Buffer.from(next)))
          .then(() => "replaced")
          .catch((error: unknown) => (error instanceof LemonError ? error.code : String(error)));
        if (outcome === "replaced") made.push(next.toString("hex"));
        return outcome;
      }),
    );
    assert.includeMembers(["replaced", "secret_key_busy"], [...new Set(outcomes)]);
    const now = await found(keys());
    assert.includeMembers([now?.key, ...(now?.previous ?? [])], made);
    assert.isNotEmpty(made);
  });

  it("is made once when several make it at once", async () => {
    const outcomes = await Promise.all(
      [keys(), keys(), keys()].map((one) =>
        one.create().catch((error: unknown) => (error instanceof LemonError ? error.code : error)),
      ),
    );
    assert.lengthOf(
      outcomes.filter((one) => one === "file"),
      1,
    );
    assert.includeMembers(["file", "secret_key_busy", "secret_key_exists"], outcomes);
  });

  it("is replaced by what needs it in a turn of each within one process", async () => {
    const one = keys();
    await one.create();
    const next = [randomBytes(32), randomBytes(32), randomBytes(32)];
    await Promise.all(next.map((key) => one.replace(Secret.take(Buffer.from(key)))));
    const now = await found(one);
    const known = [now?.key, ...(now?.previous ?? [])];
    assert.includeMembers(
      known,
      next.map((key) => key.toString("hex")),
    );
  });

  it("leaves nothing of a write that was cut off once the next is done, and touches nothing else", async () => {
    await keys().create();
    const random = "0123456789abcdef";
    const left = [
      `.secrets_master_key.${random}.tmp`,
      `.secrets_master_key.previous.${random}.tmp`,
      `.secrets_master_key.changed.${random}.tmp`,
    ];
    const others = [`.operator.${random}.tmp`, "secrets_master_key.copy"];
    for (const name of [...left, ...others]) writeFileSync(join(home, name), "", { mode: 0o600 });
    await keys().replace(Secret.take(randomBytes(32)));
    const ours = ["", ".previous", ".changed"].map((ending) => `${MASTER_KEY_FILE}${ending}`);
    const expected = [...ours, ...others];
    assert.sameMembers(readdirSync(home), expected);
  });

  it("tells whoever watches of each change, and of one that the file does not show: the keychain's", async () => {
    mkdirSync(home, { mode: 0o700 });
    const told = () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      return { promise, end: keys().watch(resolve) };
    };
    const ofMade = told();
    await keys().create();
    await ofMade.promise;
    ofMade.end();
    const ofReplaced = told();
    await keys().replace(Secret.take(randomBytes(32)));
    await ofReplaced.promise;
    ofReplaced.end();
    const ofChain = told();
    // What the keychain's own change leaves in the folder.
    await changingKeys(home, async () => {});
    await ofChain.promise;
    ofChain.end();
  });

  it("stays as it is when it is replaced by itself, and is not replaced where there is none", async () => {
    assert.equal(
      await code(() => keys().replace(Secret.take(randomBytes(32)))),
      "secret_key_missing",
    );
    await keys().create();
    const made = await found(keys());
    await keys().replace(Secret.take(Buffer.from(made?.key ?? "", "hex")));
    assert.deepEqual(await found(keys()), made);
  });

  it("is not replaced in the environment, whose earlier one is read from there too", async () => {
    const [now, before] = [randomBytes(32), randomBytes(32)];
    const environment = {
      [MASTER_KEY_VARIABLE]: base64(now),
      [PREVIOUS_KEY_VARIABLE]: base64(before),
    };
    assert.equal(
      await code(() => keys(environment).replace(Secret.take(randomBytes(32)))),
      "secret_key_external",
    );
    assert.deepEqual(await found(keys(environment)), {
      source: "env",
      key: now.toString("hex"),
      previous: [before.toString("hex")],
    });
  });

  it("is made and replaced in the keychain where that serves, else made in the file", async () => {
    const keychain = chain(null);
    const from = withChain(keychain);
    assert.equal(await from.create(), "keychain");
    const old = keychain.text.split("|")[0];
    const next = randomBytes(32);
    await from.replace(Secret.take(Buffer.from(next)));
    assert.equal(keychain.text, `${base64(next)}|${old}`);
    assert.equal(await withChain(chain(null, "locked")).create(), "file");
  });
});
