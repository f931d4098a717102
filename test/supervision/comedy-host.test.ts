/** Proves what is left of comedy: actors in memory, and nothing else that it could do to a process. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { type Nursery, openComedy, type Place } from "../../supervision/comedy-host.ts";
import { settle } from "../support/fake-clock.ts";
import { logLines } from "../support/log-lines.ts";

const source = (path: string): string => JSON.stringify(import.meta.resolve(`../../${path}`));

/** The beginning of a program of its own that has a system with one actor. */
const PROGRAM = `
  import pino from ${JSON.stringify(import.meta.resolve("pino"))};
  import { createActorSystem } from ${source("supervision/system.ts")};
  import { systemClock } from ${source("host/clock.ts")};
  const log = pino({ level: "trace", base: null }, pino.destination({ dest: 2, sync: true }));
  const system = createActorSystem({ name: "program", log, clock: systemClock });
  const ref = await system.root.startActor({
    id: "subject",
    kind: "subject",
    restart: "permanent",
    start: () => ({ handlers: { pid: () => process.pid } }),
  });
`;

describe("comedy", () => {
  describe("in a program of its own", () => {
    let folder: string;
    const children: ChildProcess[] = [];

    beforeEach(() => {
      folder = mkdtempSync(join(tmpdir(), "lemon-comedy-"));
    });

    afterEach(() => {
      for (const child of children.splice(0)) child.kill("SIGKILL");
      rmSync(folder, { recursive: true });
    });

    function run(program: string, env: Record<string, string> = {}) {
      const child = spawn(
        process.execPath,
        ["--input-type=module-typescript", "--eval", PROGRAM + program],
        { cwd: folder, env: { ...process.env, APP_ROOT_PATH: folder, ...env } },
      );
      children.push(child);
      const ended = once(child, "close");
      return { child, ended, stdout: text(child.stdout), stderr: text(child.stderr) };
    }

    it("keeps no process alive, and writes through pino alone, also where NODE_ENV is development", async () => {
      const { ended, stdout, stderr } = run(
        `
          import { createRequire } from "node:module";
          const load = createRequire(createRequire(${source("supervision/system.ts")}).resolve("comedy"));
          console.log(JSON.stringify({
            resources: process.getActiveResourcesInfo(),
            slow: load("bluebird").hasLongStackTraces(),
          }));
        `,
        { NODE_ENV: "development" },
      );
      expect(await ended).to.deep.equal([0, null]);
      const { resources, slow }: { resources: string[]; slow: boolean } = JSON.parse(await stdout);
      expect(resources).not.to.include("Timeout");
      expect(slow).to.equal(false);
      const lines = (await stderr).trim().split("\n");
      const written: unknown[] = lines.map((line) => JSON.parse(line));
      const ofComedy = written.filter((line) => JSON.stringify(line).includes('"comedy"'));
      expect(ofComedy.length).to.be.greaterThan(0);
    });

    it("leaves SIGTERM and SIGINT their own meaning", async () => {
      for (const signal of ["SIGTERM", "SIGINT"] as const) {
        const { child, ended } = run(`console.log("ready"); setInterval(() => {}, 1000);`);
        await once(child.stdout, "data");
        child.kill(signal);
        expect(await ended).to.deep.equal([null, signal]);
      }
    });

    it("reads and watches no actors.json, so that no file can fork an actor", async () => {
      const forked = { mode: "forked" };
      const names = ["subject", "program", "group", "Root", "InMemoryActor"];
      const config = Object.fromEntries(names.map((name) => [name, forked]));
      writeFileSync(join(folder, "actors.json"), JSON.stringify(config));
      const { ended, stdout, stderr } = run(`
        const pid = await ref.ask("pid", null, { deadlineMs: 10_000 });
        const resources = process.getActiveResourcesInfo();
        console.log(JSON.stringify({ own: pid === process.pid, resources }));
        await system.shutdown();
      `);
      expect(await ended).to.deep.equal([0, null]);
      const { own, resources }: { own: boolean; resources: string[] } = JSON.parse(await stdout);
      expect(own).to.equal(true);
      for (const resource of resources) {
        expect(resource).not.to.match(/Watcher|ProcessWrap|FSEvent|Server/);
      }
      expect(await stderr).not.to.contain("actors.json");
    });
  });

  it("is imported by one module", () => {
    const root = join(import.meta.dirname, "../..");
    const importers = globSync(
      "{protocol,host,supervision,transport,actors,gateways,client,cli}/**/*.ts",
      {
        cwd: root,
      },
    ).filter((file) => /["']comedy["']\)?;/.test(readFileSync(join(root, file), "utf8")));
    expect(importers).to.deep.equal(["supervision/comedy-host.ts"]);
  });

  it("takes no signal, and takes none of the handlers away that were there", () => {
    const handler = (): void => {};
    const signals = ["SIGINT", "SIGTERM"] as const;
    for (const signal of signals) process.once(signal, handler);
    const before = signals.map((signal) => process.rawListeners(signal));
    const nursery = openComedy(logLines().log);
    expect(signals.map((signal) => process.rawListeners(signal))).to.deep.equal(before);
    nursery.close();
    for (const signal of signals) process.removeListener(signal, handler);
  });

  it("does not sample the event loop", () => {
    const load = createRequire(createRequire(import.meta.url).resolve("comedy"));
    const toobusy: { started(): boolean } = load("toobusy-js");
    expect(toobusy.started()).to.equal(false);
  });

  describe("as a host", () => {
    let root: Nursery;
    /** What Node, or bluebird in its place, would have written to stderr. */
    const complaints: unknown[] = [];
    const complain = (complaint: unknown): void => void complaints.push(complaint);

    beforeEach(() => {
      root = openComedy(logLines("warn").log);
      process.on("warning", complain);
      process.on("unhandledRejection", complain);
    });

    afterEach(() => {
      process.removeListener("warning", complain);
      process.removeListener("unhandledRejection", complain);
      root.close();
      expect(complaints.splice(0)).to.deep.equal([]);
    });

    it("gives each place its turns, one for each time it asked, and none after its release", async () => {
      const turns: string[] = [];
      const a = await root.place("a", () => void turns.push("a"));
      const b = await root.place("b", () => void turns.push("b"));
      a.turn();
      b.turn();
      a.turn();
      expect(turns).to.deep.equal([]);
      await settle();
      expect(turns).to.deep.equal(["a", "b", "a"]);
      b.release();
      b.release();
      b.turn();
      a.turn();
      await settle();
      expect(turns).to.deep.equal(["a", "b", "a", "a"]);
    });

    it("forgets the turns of places released before they came", async () => {
      let turns = 0;
      const places = await Promise.all(
        Array.from({ length: 500 }, (_, index) =>
          root.place(`place-${index}`, () => {
            turns += 1;
          }),
        ),
      );
      for (const place of places) place.turn();
      for (const place of places) place.release();
      await settle();
      // Comedy had taken in as many as one tick allows.
      expect(turns).to.be.lessThan(100);
    });

    it("takes any name, one that every object has among them", async () => {
      for (const name of ["constructor", "__proto__", "toString", "initialize", "a b", "ä"]) {
        let turns = 0;
        const nursery = root.nursery(name);
        const place = await nursery.place(name, () => {
          turns += 1;
        });
        place.turn();
        await settle();
        expect(turns, name).to.equal(1);
        place.release();
        nursery.close();
      }
    });

    it("holds thousands in one nursery, gives their places up and takes as many again", async () => {
      let turns = 0;
      const nursery = root.nursery("crowd");
      for (const _ of ["first", "second"]) {
        const places = await Promise.all(
          Array.from({ length: 2_000 }, (_, index) =>
            nursery.place(`member-${index}`, () => {
              turns += 1;
            }),
          ),
        );
        for (const place of places) place.turn();
        await settle();
        await settle();
        for (const place of places) place.release();
        await settle();
      }
      expect(turns).to.equal(4_000);
      nursery.close();
    });

    it("refuses a place in what is closed", async () => {
      const nursery = root.nursery("closed");
      const place: Place = await nursery.place("a", () => {});
      nursery.close();
      place.release();
      await settle();
      const refused = await nursery.place("b", () => {}).catch((error: unknown) => error);
      expect(refused).to.be.instanceOf(Error);
    });

    it("nests, and a nursery ends with the one it is in", async () => {
      const outer = root.nursery("outer");
      const inner = outer.nursery("inner");
      await inner.place("a", () => {});
      outer.close();
      await settle();
      const refused = await inner.place("b", () => {}).catch((error: unknown) => error);
      expect(refused).to.be.instanceOf(Error);
    });
  });
});
