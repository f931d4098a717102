/** What a fake host measures of itself: the same on every machine, its counters driven by the clock alone. */
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import { ROUTES } from "../../protocol/host-agent/routes.ts";
import type { Clock } from "../clock.ts";
import type {
  Gpu,
  Health,
  HealthFindings,
  Hostname,
  HostStatus,
  Power,
  ResourceSample,
  SystemFacts,
  TimeZone,
} from "../machine/system.ts";
import type { FakeMemory } from "./state.ts";

const SYSTEM = {
  label: "System",
  free_bytes: 19_327_352_832,
  total_bytes: 68_719_476_736,
} as const;
const DATA = {
  label: "Data",
  free_bytes: 442_381_180_928,
  total_bytes: 1_099_511_627_776,
} as const;
const GPU = { present: true, vendor: "intel", render_gid: 104 } as const;
const NO_GPU = { present: false, vendor: "", render_gid: 0 } as const;
const MEMORY = {
  total_bytes: 16_728_338_432,
  available_bytes: 9_214_455_808,
  used_bytes: 7_513_882_624,
} as const;

export class FakeFacts implements SystemFacts {
  readonly #memory: FakeMemory;
  readonly #clock: Clock;
  readonly #startedAtMs: number;
  readonly #gpu: Gpu;

  constructor(memory: FakeMemory, clock: Clock, { gpu }: { readonly gpu: boolean }) {
    this.#memory = memory;
    this.#clock = clock;
    this.#startedAtMs = clock.monotonicMs();
    this.#gpu = gpu ? GPU : NO_GPU;
  }

  async status(): Promise<HostStatus> {
    return {
      hostname: this.#memory.state.hostname,
      uptime_s: this.#uptimeS(),
      disk_pressure: false,
      data_disk_free_bytes: DATA.free_bytes,
      data_disk_total_bytes: DATA.total_bytes,
      disks: [SYSTEM, DATA],
    };
  }

  async resources(): Promise<ResourceSample> {
    const uptime = this.#uptimeS();
    return {
      ts_ns: process.hrtime.bigint(),
      cpu: { total_jiffies: uptime * 200, idle_jiffies: uptime * 164 },
      loadavg: [0.42, 0.51, 0.48],
      mem: MEMORY,
      net: [{ iface: "eth0", rx_bytes: uptime * 12_000, tx_bytes: uptime * 4_000 }],
      disk: [{ dev: "sda", read_bytes: uptime * 8_192, write_bytes: uptime * 2_048 }],
      uptime_s: uptime,
    };
  }

  async gpu(): Promise<Gpu> {
    return this.#gpu;
  }

  #uptimeS(): number {
    return Math.floor((this.#clock.monotonicMs() - this.#startedAtMs) / 1000);
  }
}

/** The boot reporter's file (wire reference, 5.1). */
const report = z.object({
  findings: ROUTES.healthSystem.result.shape.categories.valueType,
});

/** Of the storage category: those that stop writes. */
const BLOCKING: ReadonlySet<string> = new Set([
  "data-drive-missing",
  "data-drive-wrong",
  "data-drive-readonly",
  "canary-mismatch",
  "disk-full",
]);

export class FakeHealth implements Health {
  readonly #storageReport: string | null;

  /** `storageReport`: a file as the boot reporter writes it; its findings are the storage category's. */
  constructor(storageReport: string | null) {
    this.#storageReport = storageReport;
  }

  async findings(): Promise<HealthFindings> {
    return {
      storage: await this.#storage(),
      drives: [],
      services: [],
      resources: [],
      time: [],
      system: [],
    };
  }

  async blocksWrites(): Promise<string | null> {
    return (await this.#storage()).find(({ id }) => BLOCKING.has(id))?.id ?? null;
  }

  async #storage() {
    if (this.#storageReport === null) return [];
    let text: string;
    try {
      text = await readFile(this.#storageReport, "utf8");
    } catch {
      return [];
    }
    try {
      return report.parse(JSON.parse(text)).findings;
    } catch {
      return [{ id: "health-report-malformed" }];
    }
  }
}

/** RFC 1123, one label. */
const HOSTNAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i;
const ZONE = /^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+)*$/;

export class FakeHostname implements Hostname {
  readonly #memory: FakeMemory;

  constructor(memory: FakeMemory) {
    this.#memory = memory;
  }

  async get(): Promise<string> {
    return this.#memory.state.hostname;
  }

  async set(hostname: string): Promise<void> {
    if (!HOSTNAME.test(hostname)) {
      throw new HostAgentError("bad-request", { message: "hostname is not one valid label" });
    }
    await this.#memory.change((state) => {
      state.hostname = hostname;
    });
  }
}

export class FakeTimeZone implements TimeZone {
  readonly #memory: FakeMemory;

  constructor(memory: FakeMemory) {
    this.#memory = memory;
  }

  async get(): Promise<string> {
    return this.#memory.state.zone;
  }

  async set(zone: string): Promise<void> {
    if (!ZONE.test(zone)) throw new HostAgentError("set-timezone-failed");
    await this.#memory.change((state) => {
      state.zone = zone;
    });
  }
}

/** Nothing is turned off: the fake goes on as if it had come back at once. */
export class FakePower implements Power {
  async reboot(): Promise<void> {}
  async shutdown(): Promise<void> {}
}
