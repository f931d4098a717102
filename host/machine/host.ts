/** The machine a host-agent serves: a real one, or one in memory (`host/fake`). */
import type { Accounts } from "./accounts.ts";
import type { Discovery } from "./discovery.ts";
import type { UserFiles } from "./files.ts";
import type { Journal } from "./journal.ts";
import type { Network } from "./network.ts";
import type { Services } from "./services.ts";
import type { Health, Hostname, Power, SystemFacts, TimeZone } from "./system.ts";
import type { Drives, Updates } from "./work.ts";

/**
 * Every failure that a caller is to read is a `HostAgentError`; anything else that is thrown becomes the
 * route's own failure, with a fixed text.
 */
export interface Host {
  readonly facts: SystemFacts;
  readonly health: Health;
  readonly hostname: Hostname;
  readonly timeZone: TimeZone;
  readonly power: Power;
  readonly accounts: Accounts;
  readonly discovery: Discovery;
  readonly network: Network;
  readonly services: Services;
  readonly files: UserFiles;
  readonly journal: Journal;
  readonly drives: Drives;
  readonly updates: Updates;
}
