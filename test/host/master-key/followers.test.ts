import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert } from "chai";
import { systemClock } from "../../../host/clock.ts";
import { Followers } from "../../../host/master-key/followers.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

describe("the vaults under the key of a state folder", () => {
  let folder: TempFolder;
  let clock: FakeClock;
  let followers: Followers;
  beforeEach(() => {
    folder = tempFolder();
    clock = new FakeClock();
    followers = new Followers(folder.path, clock);
  });
  afterEach(() => folder[Symbol.dispose]());

  const path = (scope: string): string => join(folder.path, "run", "vaults", `${scope}.json`);

  it("are none at first, and waited for by nobody once all are under the key", async () => {
    assert.deepEqual(await followers.behind("key", 1_000), []);
    await followers.note("controller", "key");
    assert.deepEqual(await followers.behind("key", 1_000), []);
  });

  it("are waited for until the last of them is, which it tells of", async () => {
    await followers.note("one", "before");
    await followers.note("other", null);
    const behind = followers.behind("key", 1_000);
    await followers.note("one", "key");
    await followers.note("other", "key");
    assert.deepEqual(await behind, []);
  });

  it("are named when the time is over, in order", async () => {
    for (const scope of ["other", "one", "done"]) await followers.note(scope, "before");
    await followers.note("done", "key");
    assert.deepEqual(await new Followers(folder.path, systemClock).behind("key", 0), [
      "one",
      "other",
    ]);
  });

  it("count as long as their process lives, and until they end", async () => {
    await followers.note("killed", "before");
    const noted: object = JSON.parse(readFileSync(path("killed"), "utf8"));
    writeFileSync(path("killed"), JSON.stringify({ ...noted, startTime: "another boot" }));
    await followers.note("ended", "before");
    await followers.withdraw("ended");
    await followers.withdraw("ended");
    assert.isFalse(existsSync(path("ended")));
    writeFileSync(path("cut-off"), "{", { mode: 0o600 });
    assert.deepEqual(await followers.behind("key", 1_000), []);
  });
});
