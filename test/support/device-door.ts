/** Owns a door at which devices are paired for tests: an administrator, what devices are answered, the store behind. */
import { DEVICE_DOCUMENTS } from "../../actors/device/devices.ts";
import type { DeviceRecord } from "../../actors/device/record.ts";
import { MemoryDocuments } from "./memory-documents.ts";
import { NodeDoor } from "./node-door.ts";
import { Party } from "./party.ts";
import { type Frame, WsClient } from "./ws-client.ts";

export interface PairedDevice {
  readonly pairingId: string;
  readonly deviceId: string;
  readonly token: string;
}

export class DeviceDoor {
  readonly documents: MemoryDocuments<DeviceRecord>;
  readonly door: NodeDoor;
  /** Hears of nodes and devices, and of nothing else. */
  readonly admin: Party;

  private constructor(documents: MemoryDocuments<DeviceRecord>, door: NodeDoor, admin: Party) {
    this.documents = documents;
    this.door = door;
    this.admin = admin;
  }

  static async open(
    documents = new MemoryDocuments<DeviceRecord>(DEVICE_DOCUMENTS.parse),
  ): Promise<DeviceDoor> {
    const door = await NodeDoor.open(documents);
    return new DeviceDoor(documents, door, await door.operator("nodes"));
  }

  /** The same store under a new controller; everything in memory is gone. */
  async restart(): Promise<DeviceDoor> {
    await this.close();
    return await DeviceDoor.open(this.documents);
  }

  close(): Promise<void> {
    return this.door.close();
  }

  request(deviceName = "phone-1") {
    return this.admin.call("device.pair.request", { deviceType: "phone", deviceName });
  }

  async approve(deviceName?: string) {
    const { pairingId } = await this.request(deviceName);
    return await this.admin.call("device.pair.approve", { pairingId });
  }

  redeem(challenge: string) {
    return this.admin.call("connect.challenge", { challenge });
  }

  async pair(deviceName?: string): Promise<PairedDevice> {
    const { pairingId, deviceId, challengeToken } = await this.approve(deviceName);
    return { pairingId, deviceId, token: (await this.redeem(challengeToken)).token };
  }

  connect(token: string): Promise<Party> {
    return Party.connect(this.door.gateway.url, { auth: { token } });
  }

  /** Resolves when the controller has heard that the party is gone. */
  async leave(party: Party): Promise<void> {
    const before = this.door.gateway.roster.counts().active;
    await party.client.close();
    await this.door.left(before);
  }

  list() {
    return this.admin.call("device.list");
  }

  async listed(): Promise<readonly string[]> {
    const { devices } = await this.list();
    return devices.map(({ deviceId }: { readonly deviceId: string }) => deviceId);
  }

  revoke(deviceId: string) {
    return this.admin.call("device.revoke", { deviceId });
  }

  /** What connecting with the token is answered. */
  async greet(token: string): Promise<Frame> {
    const client = await WsClient.open(this.door.gateway.url);
    return await client.call("connect", { auth: { token } });
  }

  /** What connecting with the token is refused with. */
  async refusalOf(token: string): Promise<string> {
    const { error } = await this.greet(token);
    return `${error?.code}: ${error?.message}`;
  }
}

/** A refusal as a person reads it. */
export function told({ code, message }: { readonly code: string; readonly message: string }) {
  return `${code}: ${message}`;
}
