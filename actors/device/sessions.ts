/**
 * Owns the session tokens of devices: which stand in the store, and whom each stands for.
 *
 * 1. A token is known by its SHA-256 alone, is durable before it is given out, and opens no connection after
 *    seven days. What has expired is deleted once nothing is left that it opened.
 * 2. A device has one token: the newest.
 * 3. A revoked device's record is deleted, and the id is spent with it: no session can begin under it again.
 * 4. A device's connections end with the token that they were opened by. While the store has not told whether
 *    it is worth something, they are ended and it opens none.
 * 5. Not concurrent: its actor runs one change at a time. `identify` waits for nobody.
 */
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { DEVICE_CLOSE } from "../../protocol/methods/devices.ts";
import { DocumentLedger } from "../../transport/document-ledger.ts";
import type { Documents } from "../../transport/documents.ts";
import type { Identity } from "../session/handler.ts";
import type { Close } from "../session/roster.ts";
import { type DeviceRecord, SESSION_TTL_MS } from "./record.ts";

/** Devices with a session at a time. */
export const MAX_DEVICES = 1_000;

export interface DeviceSessionsOptions {
  readonly documents: Documents<DeviceRecord>;
  readonly clock: Clock;
  /** Ends all `/ws` connections of a device, also those whose `connect` is under way. */
  readonly endSessions: (deviceId: string, close: Close) => void;
  /** How many each connected device has open. */
  readonly connections: () => ReadonlyMap<string, number>;
}

export interface ListedDevice {
  readonly record: DeviceRecord;
  readonly connections: number;
}

export class DeviceSessions {
  readonly #options: DeviceSessionsOptions;
  #ledger: DocumentLedger<string, DeviceRecord>;

  constructor(options: DeviceSessionsOptions) {
    this.#options = options;
    this.#ledger = this.#newLedger(() => {});
  }

  /** What stands in the store, and nothing else, is in force. `onDoubt`: there is something to `settle`. */
  async load(onDoubt: () => void): Promise<void> {
    const ledger = this.#newLedger(onDoubt);
    await ledger.load();
    this.#ledger = ledger;
    await this.#deleteExpired();
  }

  /** Errors: `unavailable` while the store has not told whether the token still stands. */
  identify(tokenHash: string): Identity | null | "expired" {
    const record = this.#ledger.holder(tokenHash);
    if (record === null) return null;
    const { deviceId } = record;
    if (this.#ledger.isInDoubt(deviceId)) throw new LemonError("unavailable");
    return this.#isOver(record) ? "expired" : { role: "device", clientId: deviceId, node: null };
  }

  /** Whose token stands, or opened what is still open; sorted by name. Errors: those of `Documents`. */
  async list(): Promise<readonly ListedDevice[]> {
    await this.#ledger.settle();
    const open = this.#options.connections();
    return this.#ledger
      .values()
      .map((record) => ({ record, connections: open.get(record.deviceId) ?? 0 }))
      .filter(({ record, connections }) => connections > 0 || !this.#isOver(record))
      .sort((a, b) => order(a.record.name, b.record.name));
  }

  /** Errors: `rate_limited` beyond `MAX_DEVICES`, and those of `Documents`. */
  async begin(
    device: Pick<DeviceRecord, "deviceId" | "name" | "type" | "tokenHash">,
  ): Promise<DeviceRecord> {
    const { deviceId } = device;
    await this.#deleteExpired();
    // An earlier attempt may have landed without an answer.
    await this.#ledger.settleOne(deviceId);
    const stands = this.#ledger.find(deviceId) !== null;
    if (!stands) this.#refuseBeyondBound();
    const issuedAtMs = this.#options.clock.nowMs();
    const expiresAtMs = issuedAtMs + SESSION_TTL_MS;
    const record: DeviceRecord = { version: 1, ...device, issuedAtMs, expiresAtMs };
    return await this.#ending(deviceId, DEVICE_CLOSE.replaced, () =>
      stands ? this.#ledger.change(deviceId, () => record) : this.#ledger.create(record),
    );
  }

  /** False when it has no session. Errors: those of `Documents`. */
  async revoke(deviceId: string): Promise<boolean> {
    await this.#ledger.settleOne(deviceId);
    return await this.#ending(deviceId, DEVICE_CLOSE.revoked, () => this.#ledger.delete(deviceId));
  }

  /** Settles what the store has not told yet. Errors: those of `Documents`. */
  async settle(): Promise<void> {
    await this.#ledger.settle();
  }

  /** The connections end when the change was made, and when it may have been. */
  async #ending<T>(deviceId: string, close: Close, change: () => Promise<T>): Promise<T> {
    const { endSessions } = this.#options;
    try {
      const changed = await change();
      endSessions(deviceId, close);
      return changed;
    } catch (error) {
      if (this.#ledger.isInDoubt(deviceId)) endSessions(deviceId, close);
      throw error;
    }
  }

  #newLedger(onDoubt: () => void): DocumentLedger<string, DeviceRecord> {
    return new DocumentLedger({
      documents: this.#options.documents,
      keyOf: ({ deviceId }) => deviceId,
      tokensOf: ({ tokenHash }) => [tokenHash],
      missing: "device_not_found",
      onDoubt,
    });
  }

  #isOver({ expiresAtMs }: DeviceRecord): boolean {
    return expiresAtMs <= this.#options.clock.nowMs();
  }

  #refuseBeyondBound(): void {
    const records = this.#ledger.values();
    if (records.length < MAX_DEVICES) return;
    const nowMs = this.#options.clock.nowMs();
    const ends = records.map(({ expiresAtMs }) => expiresAtMs).filter((endMs) => endMs > nowMs);
    const retryAfterMs = Math.min(SESSION_TTL_MS, ...ends.map((endMs) => endMs - nowMs));
    throw new LemonError("rate_limited", {
      message: "Too many devices hold a session; revoke one, or wait until one of them has expired",
      details: { retryAfterMs },
    });
  }

  /** What can not be deleted now is worth nothing all the same, and is deleted the next time. */
  async #deleteExpired(): Promise<void> {
    const open = this.#options.connections();
    for (const record of this.#ledger.values()) {
      if (!this.#isOver(record) || open.has(record.deviceId)) continue;
      try {
        await this.#ledger.delete(record.deviceId);
      } catch (error) {
        if (!(error instanceof LemonError)) throw error;
        return;
      }
    }
  }
}

/** By code units: the same order everywhere. */
function order(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
