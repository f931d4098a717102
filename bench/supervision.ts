/**
 * Measures the actor kernel beside what it stands on, in one run: asks, the making and ending of 10,000
 * actors, the bytes of one. `node bench/supervision.ts [--json]`.
 */
import { spawnSync } from "node:child_process";
import comedy from "comedy";
import pino from "pino";
import { systemClock } from "../host/clock.ts";
import { createActorSystem } from "../supervision/system.ts";
import { Report } from "./report.ts";

const ROUNDS = 5;
const ASKS = 100_000;
const IN_FLIGHT = 64;
const ACTORS = 10_000;

/** A place for many actors. */
interface Crowd {
  create(index: number): PromiseLike<unknown>;
  end(): PromiseLike<unknown>;
}

if (globalThis.gc === undefined) {
  // Bytes are counted after a collection, and only this flag allows to ask for one.
  const args = ["--expose-gc", ...process.execArgv, ...process.argv.slice(1)];
  process.exit(spawnSync(process.execPath, args, { stdio: "inherit" }).status ?? 1);
}

const log = pino({ level: "warn" });
const system = createActorSystem({ name: "bench", log, clock: systemClock });
const quiet = { error() {}, warn() {}, info() {}, debug() {} };
const bareSystem = comedy.createSystem({ config: {}, logger: quiet });
bareSystem.getLog().setLevel(1);
const bareRoot = await bareSystem.rootActor();
const report = new Report("supervision");

await asks();
await actors();
report.print();
await system.shutdown();
await bareSystem.destroy();

/** Asks that add a number, one at a time and many in flight. */
async function asks(): Promise<void> {
  const subjects = {
    "function call": functionCall(),
    "bare comedy": await bareActor(),
    lemon: await actor(),
  };
  // Round by round, so that a busy moment of the machine falls on all alike. Round 0 warms up.
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const inFlight of [1, IN_FLIGHT]) {
      const label = (name: string): string => `${name}: ask, ${inFlight} in flight`;
      for (const [name, ask] of Object.entries(subjects)) {
        const rate = await perSecond(ask, inFlight);
        const of = name === "lemon" ? { of: label("bare comedy") } : {};
        if (round > 0) report.sample(label(name), rate, { unit: "/s", ...of });
      }
    }
  }
}

/** The making and ending of many siblings, and what they take up meanwhile. */
async function actors(): Promise<void> {
  const places = { "bare comedy": bareCrowd, lemon: crowd };
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [name, open] of Object.entries(places)) {
      const place = await open(round);
      const emptyBytes = await heapBytes();
      const createMs = await timeMs(async () => {
        for (let index = 0; index < ACTORS; index += 1) await place.create(index);
      });
      const bytes = (await heapBytes()) - emptyBytes;
      const endMs = await timeMs(() => place.end());
      if (round === 0) continue;
      const sample = (what: string, unit: string, value: number): void => {
        const of = name === "lemon" ? { of: `bare comedy: ${what}` } : {};
        report.sample(`${name}: ${what}`, value, { unit, ...of });
      };
      sample(`create one of ${ACTORS} actors`, "µs", (createMs * 1_000) / ACTORS);
      sample(`end one of ${ACTORS} actors`, "µs", (endMs * 1_000) / ACTORS);
      sample("memory of an actor", "B", bytes / ACTORS);
    }
  }
}

type Ask = (by: number) => PromiseLike<unknown>;

async function perSecond(ask: Ask, inFlight: number): Promise<number> {
  const each = Math.floor(ASKS / inFlight);
  const askInTurn = async (): Promise<void> => {
    for (let count = 0; count < each; count += 1) await ask(1);
  };
  const ms = await timeMs(() => Promise.all(Array.from({ length: inFlight }, askInTurn)));
  return (each * inFlight * 1_000) / ms;
}

async function timeMs(work: () => PromiseLike<unknown>): Promise<number> {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}

/** What the heap holds once everything that is on its way has come to rest. */
async function heapBytes(): Promise<number> {
  await atRest();
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

/** Comedy ends actors in its own time: its queue has been run when the event loop has gone round. */
async function atRest(): Promise<void> {
  for (let rounds = 0; rounds < 5; rounds += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

// --- the subjects -----------------------------------------------------------------------------------

function functionCall(): Ask {
  let sum = 0;
  return async (by) => {
    sum += by;
    return sum;
  };
}

async function bareActor(): Promise<Ask> {
  let sum = 0;
  const add = (by: number): number => {
    sum += by;
    return sum;
  };
  const ref = await bareRoot.createChild({ add }, { mode: "in-memory", name: "adder" });
  return (by) => ref.sendAndReceive("add", by);
}

type Adder = { add: (by: number) => number };

function adder(): { handlers: Adder } {
  let sum = 0;
  return {
    handlers: {
      add: (by) => {
        sum += by;
        return sum;
      },
    },
  };
}

async function actor(): Promise<Ask> {
  const spec = { id: "adder", kind: "adder", restart: "permanent", start: adder } as const;
  const ref = await system.root.startActor<Adder>(spec);
  return (by) => ref.ask("add", by, { deadlineMs: 5_000 });
}

async function bareCrowd(round: number): Promise<Crowd> {
  let parent = bareRoot;
  const initialize = (self: typeof bareRoot): void => {
    parent = self;
  };
  const name = `crowd-${round}`;
  const ref = await bareRoot.createChild({ initialize }, { mode: "in-memory", name });
  const members: { destroy(): PromiseLike<unknown> }[] = [];
  return {
    create: async (index) => {
      const options = { mode: "in-memory", name: `member-${index}` };
      members.push(await parent.createChild(adder().handlers, options));
    },
    end: async () => {
      for (const member of members) await member.destroy();
      await ref.destroy();
      await atRest();
    },
  };
}

async function crowd(round: number): Promise<Crowd> {
  const supervisor = await system.root.startSupervisor({
    id: `crowd-${round}`,
    strategy: "one_for_one",
    restart: "temporary",
    intensity: { restarts: 5, windowMs: 1_000 },
    backoff: { firstMs: 100, maxMs: 1_000, resetAfterMs: 1_000 },
  });
  const members: { stop(): Promise<void> }[] = [];
  return {
    create: async (index) => {
      const id = `member-${index}`;
      const spec = { id, kind: "adder", restart: "temporary", start: adder } as const;
      members.push(await supervisor.startActor<Adder>(spec));
    },
    end: async () => {
      for (const member of members) await member.stop();
      await supervisor.stop();
      await atRest();
    },
  };
}
