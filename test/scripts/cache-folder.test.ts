import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect } from "chai";
import { cacheFolder, exclusively, packageRoot, withScratch } from "../../scripts/cache-folder.mjs";
import { killWhole, type Run, start } from "./processes.ts";
import { useTemporaryFolder } from "./temporary-folder.ts";

const module = pathToFileURL(join(packageRoot(), "scripts", "cache-folder.mjs")).href;
const silent = (): void => {};

/** Another process that runs `body` with the module's functions and `cache` at hand. */
function elsewhere(cache: string, body: string): Run {
  const head = `import { exclusively, withScratch } from ${JSON.stringify(module)};
    import { once } from "node:events"; import { readFileSync, writeFileSync } from "node:fs";
    const cache = ${JSON.stringify(cache)};
    const untilStdinEnds = () => once(process.stdin.resume(), "end");\n`;
  return start(process.execPath, ["--input-type=module", "-e", head + body]);
}

const HOLD = `await exclusively(cache, "work", (line) => console.log(line), async () => {
  console.log("holding"); await untilStdinEnds(); });`;

describe("the lock of the cache folder", () => {
  const folder = useTemporaryFolder();

  it("makes a second process wait until the first is done, and tells it once for whom", async () => {
    const first = elsewhere(folder(), HOLD);
    await first.said("holding");
    const second = elsewhere(folder(), HOLD);
    await second.said(`waiting for process ${first.child.pid}, which does the same (work)`);
    first.child.stdin.end();
    await second.said("holding");
    second.child.stdin.end();
    expect((await first.end).code).to.equal(0);
    expect((await second.end).stdout.split("\n").filter((line) => line !== "")).to.have.length(2);
    expect(readdirSync(folder())).to.deep.equal([]);
  });

  it("is taken over from a holder that was killed", async () => {
    const first = elsewhere(folder(), HOLD);
    await first.said("holding");
    await killWhole(first);
    expect(readdirSync(folder())).to.deep.equal(["work.lock"]);
    expect(await exclusively(folder(), "work", silent, async () => "done")).to.equal("done");
    expect(readdirSync(folder())).to.deep.equal([]);
  });

  it("is taken over from a dead holder whose pid another process has now", async () => {
    symlinkSync(`${process.pid}.1.aaaaaaaaaaaa`, join(folder(), "work.lock"));
    expect(await exclusively(folder(), "work", silent, async () => "done")).to.equal("done");
  });

  it("is released when the work fails", async () => {
    const failure = exclusively(folder(), "work", silent, () =>
      Promise.reject(new Error("broken")),
    );
    await failure.then(
      () => expect.fail("it went well"),
      (error: Error) => expect(error.message).to.equal("broken"),
    );
    expect(readdirSync(folder())).to.deep.equal([]);
  });

  it("lets eight processes count without losing a step", async () => {
    const counter = join(folder(), "counter");
    writeFileSync(counter, "0");
    const body = `await exclusively(cache, "count", () => {}, async () => {
      const seen = Number(readFileSync(cache + "/counter", "utf8"));
      await new Promise(setImmediate);
      writeFileSync(cache + "/counter", String(seen + 1)); });`;
    const runs = Array.from({ length: 8 }, () => elsewhere(folder(), body));
    for (const run of runs) run.child.stdin.end();
    const ends = await Promise.all(runs.map(({ end }) => end));
    expect(ends.map(({ code }) => code)).to.deep.equal([0, 0, 0, 0, 0, 0, 0, 0]);
    expect(readFileSync(counter, "utf8")).to.equal("8");
  });
});

describe("a scratch folder", () => {
  const folder = useTemporaryFolder();
  const left = (): string[] => readdirSync(join(folder(), "tmp"));

  it("is empty, and gone after the work, also when that fails", async () => {
    await withScratch(folder(), async (scratch) => {
      expect(readdirSync(scratch)).to.deep.equal([]);
      writeFileSync(join(scratch, "half"), "");
    });
    await withScratch(folder(), () => Promise.reject(new Error("broken"))).catch(silent);
    expect(left()).to.deep.equal([]);
  });

  it("of a killed process is swept by the next, one of a living process is not", async () => {
    const body = `await withScratch(cache, async (scratch) => {
      writeFileSync(scratch + "/half", ""); console.log("working"); await untilStdinEnds(); });`;
    const killed = elsewhere(folder(), body);
    await killed.said("working");
    await killWhole(killed);
    const living = elsewhere(folder(), body);
    await living.said("working");
    expect(left()).to.have.length(1);
    await withScratch(folder(), async () => expect(left()).to.have.length(2));
    expect(left()).to.have.length(1);
    living.child.stdin.end();
    expect((await living.end).code).to.equal(0);
    expect(left()).to.deep.equal([]);
  });

  it("may lie beside names that no process left", async () => {
    mkdirSync(join(folder(), "tmp", "not-a-pid"), { recursive: true });
    await withScratch(folder(), async () => {});
    expect(existsSync(join(folder(), "tmp", "not-a-pid"))).to.equal(false);
  });
});

describe("the place of the cache folder", () => {
  it("is LEMON_CACHE when that is set, made absolute", () => {
    expect(cacheFolder({ LEMON_CACHE: "/somewhere/else" })).to.equal("/somewhere/else");
    expect(cacheFolder({ LEMON_CACHE: "here" })).to.equal(join(process.cwd(), "here"));
  });

  it("is .cache in a checkout", () => {
    expect(cacheFolder({ XDG_CACHE_HOME: "/elsewhere" })).to.equal(join(packageRoot(), ".cache"));
  });
});
