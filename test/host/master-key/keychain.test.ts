import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { assert } from "chai";
import { type KeychainEntry, keychain, type OpenEntry } from "../../../host/master-key/keychain.ts";
import { KeychainError } from "../../../host/master-key/master-keys.ts";
import { Secret } from "../../../protocol/secret.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { tempFolder } from "../../support/temp-folder.ts";

const HOMES = { home: "/nowhere/.lemon", accountHome: "/nowhere" };
const BUS = { DBUS_SESSION_BUS_ADDRESS: "unix:path=/nowhere" };

function opening(entry: Partial<KeychainEntry>, asked: string[] = []): () => Promise<OpenEntry> {
  return async () => (service, account) => {
    asked.push(`${service}/${account}`);
    return {
      getPassword: async () => null,
      setPassword: async () => {},
      ...entry,
    };
  };
}

async function kindOf(answer: Promise<unknown>): Promise<string> {
  return answer.then(
    () => "answered",
    (failure: unknown) => (failure instanceof KeychainError ? failure.kind : "another failure"),
  );
}

describe("a keychain", () => {
  const clock = new FakeClock();

  it("is looked for on macOS, and on Linux where a session bus is; nowhere else is its library loaded", () => {
    const load = () => Promise.reject(new Error("loaded"));
    const at = (platform: NodeJS.Platform, environment: NodeJS.ProcessEnv) =>
      keychain({ platform, environment, clock, load, ...HOMES }) !== null;
    assert.isTrue(at("darwin", {}));
    assert.isTrue(at("linux", BUS));
    assert.isFalse(at("linux", {}));
    assert.isFalse(at("linux", { DBUS_SESSION_BUS_ADDRESS: "" }));
    assert.isFalse(at("freebsd", BUS));
  });

  it("holds the key and the earlier ones under the names of the contract", async () => {
    const asked: string[] = [];
    const load = opening({ getPassword: async () => "text" }, asked);
    const place = keychain({ platform: "darwin", environment: {}, clock, load, ...HOMES });
    const texts = await place?.read();
    assert.equal(
      texts?.current?.use((bytes) => Buffer.from(bytes).toString()),
      "text",
    );
    assert.deepEqual(asked, ["Lemon Secrets/default", "Lemon Secrets/default-previous"]);
  });

  it("holds a key for each state folder, whichever link leads there: two of one account share none", async () => {
    using folder = tempFolder();
    const accountHome = join(folder.path, "account");
    const usual = join(accountHome, ".lemon");
    const link = join(folder.path, "link");
    const entryOf = async (home: string): Promise<string> => {
      const asked: string[] = [];
      const load = opening({}, asked);
      await keychain({
        platform: "darwin",
        environment: {},
        clock,
        load,
        home,
        accountHome,
      })?.read();
      return asked.join();
    };
    assert.equal(await entryOf(usual), "Lemon Secrets/default");
    mkdirSync(usual, { recursive: true });
    symlinkSync(usual, link);
    assert.equal(await entryOf(link), "Lemon Secrets/default");
    const others = ["one", "other"].map((name) => join(folder.path, name));
    const made = await Promise.all(others.map(entryOf));
    for (const entry of made) assert.match(entry, /^Lemon Secrets\/default:[0-9a-f]{16}$/);
    assert.equal(new Set(made).size, 2);
    // The same once the folder is there, and by a name that is not the shortest.
    for (const home of others) mkdirSync(home);
    assert.deepEqual(
      await Promise.all(others.map((home) => entryOf(`${home}/../${basename(home)}/`))),
      made,
    );
  });

  it("says what kind of failure it met, and nothing of what the library said", async () => {
    const kinds: Record<string, string> = {
      "The keyring is locked": "locked",
      "Access denied by the user canary": "denied",
      "something with a canary": "failed",
    };
    for (const [message, kind] of Object.entries(kinds)) {
      const load = opening({ getPassword: () => Promise.reject(new Error(message)) });
      const place = keychain({ platform: "linux", environment: BUS, clock, load, ...HOMES });
      const read = place?.read() ?? Promise.resolve();
      assert.equal(await kindOf(read), kind);
      assert.notInclude(String(await read.catch((failure: unknown) => failure)), "canary");
    }
  });

  it("is given up after 5 s: a locked one waits for a person", async () => {
    const load = opening({ setPassword: () => new Promise(() => {}) });
    const place = keychain({ platform: "darwin", environment: {}, clock, load, ...HOMES });
    using text = Secret.ofText("key");
    const written = kindOf(place?.writeCurrent(text) ?? Promise.resolve());
    await clock.advance(4_999);
    assert.equal(await Promise.race([written, Promise.resolve("waits")]), "waits");
    await clock.advance(1);
    assert.equal(await written, "timeout");
  });

  it("does not serve, in the real library's words too, on a bus that is not there", () => {
    if (process.platform !== "linux") return;
    const module = (path: string): string =>
      JSON.stringify(new URL(`../../../host/${path}`, import.meta.url).href);
    const program = `
      import { systemClock } from ${module("clock.ts")};
      import { keychain } from ${module("master-key/keychain.ts")};
      // However long the machine takes over it, the library's answer is waited for.
      const clock = { ...systemClock, after: () => () => {} };
      const place = keychain({ platform: "linux", environment: process.env, clock, home: '/nowhere', accountHome: '/' });
      console.log(await place.read().then(() => "answered", (failure) => failure.kind));`;
    const arguments_ = ["--input-type=module", "--eval", program];
    // Never the bus of whoever runs this: what stands in that keychain is nobody's to ask for.
    const env = { ...process.env, DBUS_SESSION_BUS_ADDRESS: "unix:path=/nonexistent/bus" };
    const { stdout } = spawnSync(process.execPath, arguments_, { env, encoding: "utf8" });
    assert.equal(stdout.trim(), "failed");
  });
});
