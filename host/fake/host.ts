/** Owns the fake host: complete, the same every time, and without any effect on the machine it runs on. */
import type { Clock } from "../clock.ts";
import type { Host } from "../machine/host.ts";
import { FakeAccounts } from "./accounts.ts";
import { FakeDiscovery } from "./discovery.ts";
import { FakeFiles } from "./files.ts";
import { FakeJournal } from "./journal.ts";
import { FakeNetwork } from "./network.ts";
import { FakeServices } from "./services.ts";
import { FakeMemory } from "./state.ts";
import { FakeFacts, FakeHealth, FakeHostname, FakePower, FakeTimeZone } from "./system.ts";
import { FakeDrives, FakeUpdates } from "./work.ts";

export interface FakeHostOptions {
  readonly clock: Clock;
  /** Where accounts, network and settings are kept; null keeps them in memory. */
  readonly stateFile: string | null;
  /** The folder people's files lie in. It is made; what is in it stays. */
  readonly filesFolder: string;
  /** The boot reporter's file behind the storage category; null: always well. */
  readonly storageReport?: string | null;
  /** False: a box without a GPU. */
  readonly gpu?: boolean;
  /** How long a job's work takes. */
  readonly jobMs?: number;
}

const JOB_MS = 2_000;

/** Errors: those of the state file. */
export async function openFakeHost(options: FakeHostOptions): Promise<Host> {
  const { clock, stateFile, filesFolder } = options;
  const { storageReport = null, gpu = true, jobMs = JOB_MS } = options;
  const memory = await FakeMemory.open(stateFile);
  const accounts = new FakeAccounts(memory);
  const health = new FakeHealth(storageReport);
  return {
    facts: new FakeFacts(memory, clock, { gpu }),
    health,
    hostname: new FakeHostname(memory),
    timeZone: new FakeTimeZone(memory),
    power: new FakePower(),
    accounts,
    discovery: new FakeDiscovery(memory),
    network: new FakeNetwork(memory, clock),
    services: new FakeServices(memory),
    files: new FakeFiles({ folder: filesFolder, accounts, health }),
    journal: new FakeJournal(clock),
    drives: new FakeDrives(clock, jobMs),
    updates: new FakeUpdates(clock, jobMs),
  };
}
