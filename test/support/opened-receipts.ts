/** Owns a receipt store that tests close, harm and open again, and what they expect of the opening. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import { expect } from "chai";
import { type Bench, bench, running, type WorkStore, type WorkStoreOptions } from "./receipts.ts";
import { refusalOf } from "./refusal.ts";

export const intent = Buffer.from("do it");

export class OpenedReceipts implements AsyncDisposable {
  readonly ground: Bench;
  readonly manager: JetStreamManager;
  /** Paths of the store's own files. */
  readonly note: string;
  readonly witness: string;
  readonly key: string;

  private constructor(ground: Bench, manager: JetStreamManager) {
    this.ground = ground;
    this.manager = manager;
    this.note = join(ground.files, "identity.json");
    this.witness = join(ground.files, "witness");
    this.key = join(ground.files, "fingerprint.key");
  }

  static async begin(): Promise<OpenedReceipts> {
    const ground = await bench();
    return new OpenedReceipts(ground, await jetstreamManager(ground.connection));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.ground[Symbol.asyncDispose]();
  }

  /** Makes a store, with ids admitted or none, and closes it. */
  async made(ids: readonly string[]): Promise<void> {
    const store = await this.ground.open();
    await Promise.all(ids.map((id) => store.admit(id, intent, running)));
    await store.close();
  }

  editNote(change: (note: Record<string, unknown>) => unknown): void {
    writeFileSync(this.note, JSON.stringify(change(JSON.parse(readFileSync(this.note, "utf8")))));
  }

  /** The reason for which the store is damaged. */
  async damage(options: WorkStoreOptions = {}): Promise<unknown> {
    const refusal = await refusalOf(() => this.ground.open(options));
    expect(refusal.code).to.equal("receipt_store_damaged");
    // What refused once must refuse again: nothing was made or mended on the way.
    const again = await refusalOf(() => this.ground.open(options));
    expect(again.details).to.deep.equal(refusal.details);
    return refusal.details["reason"];
  }
}

export async function expectServing(store: WorkStore): Promise<void> {
  expect(store.condition).to.equal("serving");
  expect((await store.admit("new", intent, running)).outcome).to.equal("admitted");
}
