/**
 * Owns what a fake host remembers, in memory and, when it is given a file, there: accounts and network, and the
 * settings beside them (rulings, "Host-agent").
 *
 * 1. A change has been written when the call that made it is answered; one that could not be is not remembered.
 * 2. A file that is not ours stops the start; it is never overwritten.
 */
import { z } from "zod";
import { LemonError } from "../../protocol/errors.ts";
import { readSecureFile, writeSecureFile } from "../secure-file.ts";

const ipv4 = z.object({
  mode: z.enum(["dhcp", "static"]),
  address: z.string(),
  gateway: z.string(),
  dns: z.array(z.string()),
});

const connection = z.object({
  kind: z.enum(["ethernet", "wifi"]),
  /** Empty for a cable. */
  ssid: z.string(),
  connected: z.boolean(),
  ipv4,
});

const fakeState = z.object({
  accounts: z.record(
    z.string(),
    z.object({ salt: z.string(), hash: z.string(), role: z.enum(["admin", "member"]) }),
  ),
  /** Names whose home is not to be derived any more. */
  deleted: z.array(z.string()),
  services: z.record(z.string(), z.object({ enabled: z.boolean(), running: z.boolean() })),
  hostname: z.string(),
  zone: z.string(),
  network: z.object({ primary: z.string(), connections: z.record(z.string(), connection) }),
});

export type FakeState = z.infer<typeof fakeState>;
export type FakeConnection = z.infer<typeof connection>;

export const DHCP = {
  mode: "dhcp",
  address: "192.168.1.20/24",
  gateway: "192.168.1.1",
  dns: ["192.168.1.1"],
} satisfies z.infer<typeof ipv4>;

function fresh(): FakeState {
  return {
    accounts: {},
    deleted: [],
    services: {
      tailscale: { enabled: false, running: false },
      samba: { enabled: false, running: false },
      dlna: { enabled: false, running: false },
      ssh: { enabled: true, running: true },
    },
    hostname: "malmo",
    zone: "Europe/Stockholm",
    network: {
      primary: "ethernet-1",
      connections: { "ethernet-1": { kind: "ethernet", ssid: "", connected: true, ipv4: DHCP } },
    },
  };
}

/** Some ten thousand accounts. */
const LARGEST_BYTES = 4_194_304;

export class FakeMemory {
  #state: FakeState;
  readonly #file: string | null;
  #writing: Promise<void> = Promise.resolve();

  private constructor(state: FakeState, file: string | null) {
    this.#state = state;
    this.#file = file;
  }

  /** As it is now: the next change makes another. */
  get state(): FakeState {
    return this.#state;
  }

  /** Errors: `home_unusable` for a file that can not be read as such a state; those of a private file. */
  static async open(file: string | null): Promise<FakeMemory> {
    const bytes = file === null ? null : await readSecureFile(file, LARGEST_BYTES);
    return new FakeMemory(bytes === null ? fresh() : parsed(bytes), file);
  }

  /**
   * Changes the state and, with a file, resolves when that is written; one change after the other. Errors, with
   * nothing changed: what `change` throws, `too_large` beyond 4 MiB, and those of writing a private file.
   */
  change<T>(change: (state: FakeState) => T): Promise<T> {
    const file = this.#file;
    const changed = this.#writing.then(async () => {
      const next = structuredClone(this.#state);
      const answer = change(next);
      if (file !== null) {
        await writeSecureFile(file, `${JSON.stringify(next, null, 2)}\n`, LARGEST_BYTES);
      }
      this.#state = next;
      return answer;
    });
    this.#writing = changed.then(
      () => {},
      () => {},
    );
    return changed;
  }
}

function parsed(bytes: Buffer): FakeState {
  try {
    return fakeState.parse(JSON.parse(bytes.toString("utf8")));
  } catch (cause) {
    throw new LemonError("home_unusable", {
      message: "The file of --state does not hold a fake host's state; remove it, or name another",
      cause,
    });
  }
}
