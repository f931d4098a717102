import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { type WatchFolder, watchPortsFile } from "../../../transport/nats-server/ready.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const PID = 4_711;

describe("a nats-server's ports file", () => {
  let folder: TempFolder;
  let clock: FakeClock;
  let ready: boolean;
  const at = (name: string): string => join(folder.path, name);

  beforeEach(() => {
    folder = tempFolder();
    clock = new FakeClock();
    ready = false;
  });
  afterEach(() => folder[Symbol.dispose]());

  async function watched(watchFolder?: WatchFolder) {
    const watch = await watchPortsFile(folder.path, PID, clock, watchFolder);
    void watch.ready.then(() => {
      ready = true;
    });
    return watch;
  }

  it("is noticed when it stands whole, and only that process's", async () => {
    writeFileSync(at(`nats-server_${PID}.ports`), "{}");
    const watch = await watched();
    expect(existsSync(at(`nats-server_${PID}.ports`)), "an earlier life's").to.equal(false);
    writeFileSync(at("nats-server_1.ports"), "{}");
    writeFileSync(at(`nats-server_${PID}.ports`), '{"nats":');
    await clock.advance(1_000);
    expect(ready).to.equal(false);
    writeFileSync(at(`nats-server_${PID}.ports`), '{"nats":[]}');
    await watch.ready;
    expect(clock.pending).to.equal(0);
    watch.close();
  });

  for (const [what, watchFolder] of [
    [
      "where the system gives no watch",
      () => {
        throw Object.assign(new Error("too many"), { code: "EMFILE" });
      },
    ],
    [
      "where the watch fails later",
      () => ({
        on: (_event: "error", listener: () => void) => setImmediate(listener),
        close: () => undefined,
      }),
    ],
  ] as const satisfies readonly (readonly [string, WatchFolder])[]) {
    it(`is noticed all the same ${what}, and nothing is left of the looking`, async () => {
      const watch = await watched(watchFolder);
      await clock.advance(1_000);
      expect(ready).to.equal(false);
      writeFileSync(at(`nats-server_${PID}.ports`), "{}");
      await clock.advance(25);
      expect(ready).to.equal(true);
      watch.close();
      expect(clock.pending).to.equal(0);
    });
  }
});
