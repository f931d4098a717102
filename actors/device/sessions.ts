/**
 * Owns the session tokens of devices: which stand in the store, and whom each stands for.
 *
 * 1. A token is known by its SHA-256 alone, is durable before it is given out, and is worth nothing after
 *    seven days; what has expired is deleted.
 * 2. A device has one token: the newest.
 * 3. Not concurrent: its actor runs one change at a time. `identify` waits for nobody.
 */
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { Document, Documents } from "../../transport/documents.ts";
import type { Identity } from "../session/handler.ts";
import { type DeviceRecord, SESSION_TTL_MS } from "./record.ts";

/** Devices with a session at a time. */
export const MAX_DEVICES = 1_000;

export class DeviceSessions {
  readonly #documents: Documents<DeviceRecord>;
  readonly #clock: Clock;
  readonly #devices = new Map<string, Document<DeviceRecord>>();
  readonly #byToken = new Map<string, string>();

  constructor(documents: Documents<DeviceRecord>, clock: Clock) {
    this.#documents = documents;
    this.#clock = clock;
  }

  /** What stands in the store, and nothing else, is in force. */
  async load(): Promise<void> {
    const documents = await this.#documents.list();
    this.#devices.clear();
    this.#byToken.clear();
    for (const document of documents) this.#keep(document);
    await this.#deleteExpired();
  }

  identify(tokenHash: string): Identity | null | "expired" {
    const deviceId = this.#byToken.get(tokenHash);
    if (deviceId === undefined) return null;
    const record = this.#devices.get(deviceId)?.value;
    if (record === undefined || this.#isOver(record)) return "expired";
    return { role: "device", clientId: deviceId, node: null };
  }

  /** Errors: `rate_limited` beyond `MAX_DEVICES`, and those of `Documents`. */
  async begin(
    device: Pick<DeviceRecord, "deviceId" | "name" | "type" | "tokenHash">,
  ): Promise<DeviceRecord> {
    await this.#deleteExpired();
    if (!this.#devices.has(device.deviceId)) this.#refuseBeyondBound();
    const issuedAtMs = this.#clock.nowMs();
    const expiresAtMs = issuedAtMs + SESSION_TTL_MS;
    const record: DeviceRecord = { version: 1, ...device, issuedAtMs, expiresAtMs };
    // An earlier attempt may have landed without an answer.
    const standing = await this.#documents.get(device.deviceId);
    const document =
      standing === null
        ? await this.#documents.create(device.deviceId, record)
        : await this.#documents.update(standing, record);
    this.#keep(document);
    return record;
  }

  #isOver({ expiresAtMs }: DeviceRecord): boolean {
    return expiresAtMs <= this.#clock.nowMs();
  }

  #refuseBeyondBound(): void {
    if (this.#devices.size < MAX_DEVICES) return;
    const ends = [...this.#devices.values()].map(({ value }) => value.expiresAtMs);
    const retryAfterMs = Math.max(1, Math.min(...ends) - this.#clock.nowMs());
    throw new LemonError("rate_limited", {
      message: "Too many devices hold a session; wait until one of them has expired",
      details: { retryAfterMs },
    });
  }

  #keep(document: Document<DeviceRecord>): void {
    const { deviceId, tokenHash } = document.value;
    this.#forget(deviceId);
    this.#devices.set(deviceId, document);
    this.#byToken.set(tokenHash, deviceId);
  }

  #forget(deviceId: string): void {
    const known = this.#devices.get(deviceId);
    if (known === undefined) return;
    this.#devices.delete(deviceId);
    this.#byToken.delete(known.value.tokenHash);
  }

  /** What can not be deleted now is worth nothing all the same, and is deleted the next time. */
  async #deleteExpired(): Promise<void> {
    for (const document of [...this.#devices.values()]) {
      if (!this.#isOver(document.value)) continue;
      try {
        await this.#documents.delete(document);
        this.#forget(document.key);
      } catch (error) {
        if (!(error instanceof LemonError)) throw error;
        return;
      }
    }
  }
}
