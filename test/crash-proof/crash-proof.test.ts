/**
 * The crash proof: a real controller, a real node, real commands, while processes are killed, the disk
 * is filled and the link is cut. `LEMON_CRASH_IDS` sets how many ids are used (at most 800 a fleet;
 * more take fleet after fleet), `LEMON_CRASH_SEED` repeats a choice of stories and faults.
 */
import { randomInt } from "node:crypto";
import { expect } from "chai";
import { type Client, connect, DEFAULT_BACKOFF } from "../../client/index.ts";
import { socketOpener } from "../../client/node/socket.ts";
import { type Answer, check, type Violation } from "./checker.ts";
import { Faults } from "./faults.ts";
import { type CrashFleet, OPERATOR_TOKEN, startCrashFleet } from "./fleet.ts";
import { seeded, Workload } from "./workload.ts";

const IDS = Number(process.env["LEMON_CRASH_IDS"] ?? 300);
const SEED = Number(process.env["LEMON_CRASH_SEED"] ?? randomInt(2 ** 31));
/** A node retains 1,000 spent ids. */
const IDS_A_FLEET = 800;
const CALLERS = 12;
/** Healing, and the longest run still under way, take less. */
const SETTLED_WITHIN_MS = 60_000;

describe("a fleet under kill -9, a full disk and a cut link", () => {
  it(`keeps every promise about ${IDS} ids`, async function () {
    this.timeout(120_000 + IDS * 2_000);
    const violations: Violation[] = [];
    for (let first = 0; first < IDS; first += IDS_A_FLEET) {
      const count = Math.min(IDS_A_FLEET, IDS - first);
      violations.push(...(await crashRun(SEED + first, count)));
    }
    expect(violations, `seed ${SEED}`).to.deep.equal([]);
  });
});

async function crashRun(seed: number, count: number): Promise<Violation[]> {
  await using fleet = await startCrashFleet();
  const client = await connect({
    url: fleet.url,
    token: OPERATOR_TOKEN,
    clientId: "crash-proof",
    openSocket: socketOpener(),
    reconnect: { ...DEFAULT_BACKOFF, firstMs: 20, maxMs: 200 },
  });
  try {
    return await run(fleet, client, seed, count);
  } finally {
    client.close();
  }
}

async function run(
  fleet: CrashFleet,
  client: Client,
  seed: number,
  count: number,
): Promise<Violation[]> {
  const random = seeded(seed);
  const workload = new Workload(client, fleet.nodeId, fleet.work, random);
  const faults = new Faults(fleet, seeded(seed ^ 0x5bd1e995));
  const harm = faults.begin();
  let next = 0;
  const callers = Array.from({ length: CALLERS }, async () => {
    for (let id = next++; id < count; id = next++) await workload.story(`crash:${seed}:${id}`);
  });
  await Promise.all(callers);
  faults.stop();
  await harm;

  const finals = await readAll(workload);
  const ledger = await workload.ledger();
  report(seed, workload, faults, fleet, finals, ledger.length);
  return check({
    calls: workload.calls,
    ledger,
    finals,
    expectedExit: (id) => workload.expectedExit(id),
  });
}

/** The truth after the faults: each id is read until there is an answer that is not `running`. */
async function readAll(workload: Workload): Promise<Map<string, Answer>> {
  const untilMs = performance.now() + SETTLED_WITHIN_MS;
  const finals = new Map<string, Answer>();
  for (const id of workload.ids) {
    for (;;) {
      const answer = await workload.read(id).catch(() => null);
      if (answer !== null) finals.set(id, { state: answer.state, exitCode: answer.exitCode });
      if (answer !== null && answer.state !== "running") break;
      if (performance.now() > untilMs) break;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  return finals;
}

function report(
  seed: number,
  workload: Workload,
  faults: Faults,
  fleet: CrashFleet,
  finals: ReadonlyMap<string, Answer>,
  ledgerLines: number,
): void {
  const states = Map.groupBy(finals.values(), ({ state }) => state);
  const count = (map: ReadonlyMap<string, number>): string =>
    [...map].map(([what, times]) => `${what} ${times}`).join(", ") || "none";
  console.log(
    [
      `      seed ${seed}: ${workload.ids.length} ids, ${workload.calls.length} calls, ${ledgerLines} ledger lines`,
      `      faults: ${count(faults.counts)}${fleet.disk === null ? " (no small disk for this account)" : ""}`,
      `      answers: ${workload.calls.filter(({ answer }) => answer !== null).length}; errors: ${count(workload.errors)}`,
      `      final: ${count(new Map([...states].map(([state, all]) => [state, all.length])))}; roles that ended by themselves: ${fleet.unasked.length}`,
      ...(process.env["LEMON_CRASH_VERBOSE"] ? fleet.unasked : []),
    ].join("\n"),
  );
}
