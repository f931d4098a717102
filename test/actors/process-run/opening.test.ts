/** Proves what a node answers before its receipt store is open, and when that can serve no longer. */
import { expect } from "chai";
import pino from "pino";
import { ProcessOpening } from "../../../actors/process-run/opening.ts";
import type { ProcessService } from "../../../actors/process-run/service.ts";
import { type ErrorCode, LemonError } from "../../../protocol/errors.ts";
import type { ProcessReceipt } from "../../../protocol/process.ts";
import { FakeClock, settle } from "../../support/fake-clock.ts";
import { refusalOf } from "../../support/refusal.ts";
import { StoreCondition } from "../../support/store-condition.ts";

const RECEIPT: ProcessReceipt = {
  processId: "a",
  nodeId: "n",
  state: "not_found",
  exitCode: null,
  stdout: null,
  stderr: null,
  outputTruncated: true,
};

class Room {
  readonly clock = new FakeClock();
  readonly store = new StoreCondition();
  readonly drains: (number | undefined)[] = [];
  attempts = 0;
  /** Why the next attempt fails; null: it succeeds. */
  refusal: ErrorCode | null = null;
  readonly opening = new ProcessOpening({
    clock: this.clock,
    log: pino({ enabled: false }),
    openStore: async () => {
      this.attempts += 1;
      if (this.refusal !== null) throw new LemonError(this.refusal);
      return this.store.asOpen();
    },
    startService: async (): Promise<ProcessService> => ({
      run: async () => RECEIPT,
      get: async () => RECEIPT,
      cancel: async () => RECEIPT,
      underWay: 0,
      drain: async ({ graceMs } = {}) => void this.drains.push(graceMs),
    }),
  });
}

describe("a node's processes before the store is open", () => {
  for (const code of ["receipt_store_damaged", "no_space", "store_in_use"] as const) {
    it(`answer every call with ${code}, reads included, and say so in the facts`, async () => {
      const room = new Room();
      room.refusal = code;
      await room.opening.begin();
      for (const call of ["run", "get", "cancel"] as const) {
        expect((await refusalOf(() => room.opening[call]({}))).code).to.equal(code);
      }
      expect(room.opening.facts()).to.deep.equal({
        receipts: null,
        receiptStore: code,
        storeId: null,
        storeSequence: null,
      });
      await room.opening.close();
    });
  }

  it("are served once a later attempt succeeds", async () => {
    const room = new Room();
    room.refusal = "no_space";
    await room.opening.begin();
    await room.clock.advance(499);
    expect(room.attempts).to.equal(1);
    room.refusal = null;
    await room.clock.advance(1);
    expect(room.attempts).to.equal(2);
    expect(await room.opening.get({})).to.equal(RECEIPT);
    expect(room.opening.facts()).to.deep.equal({
      receipts: { retained: 7, limit: 1_000 },
      receiptStore: "ready",
      storeId: "store",
      storeSequence: 9,
    });
  });

  it("are tried with a pause that doubles up to 15 s", async () => {
    const room = new Room();
    room.refusal = "receipt_store_unavailable";
    await room.opening.begin();
    const attemptsAt: number[] = [];
    for (let elapsedMs = 0; elapsedMs <= 60_000; elapsedMs += 500) {
      if (room.attempts > attemptsAt.length) attemptsAt.push(elapsedMs);
      await room.clock.advance(500);
    }
    expect(attemptsAt).to.deep.equal([0, 500, 1_500, 3_500, 7_500, 15_500, 30_500, 45_500]);
    await room.opening.close();
    expect(room.clock.pending).to.equal(0);
  });

  it("are not tried again when the store is damaged", async () => {
    const room = new Room();
    room.refusal = "receipt_store_damaged";
    await room.opening.begin();
    expect(room.clock.pending).to.equal(0);
  });

  it("let go of a store that opens after the end", async () => {
    const room = new Room();
    const begun = room.opening.begin();
    await room.opening.close();
    await begun;
    expect(room.store.closed).to.equal(1);
    expect((await refusalOf(() => room.opening.get({}))).code).to.equal(
      "receipt_store_unavailable",
    );
  });
});

describe("a node's processes with an open store", () => {
  it("tell why it admits nothing just now", async () => {
    const room = new Room();
    await room.opening.begin();
    const told = (["unproven", "full", "verifying", "damaged"] as const).map((condition) => {
      room.store.become(condition);
      return room.opening.facts().receiptStore;
    });
    expect(told).to.deep.equal([
      "durability_unproven",
      "no_space",
      "receipt_store_unavailable",
      "receipt_store_damaged",
    ]);
  });

  it("ask for a new life once the witness can not be written, and not before", async () => {
    const room = new Room();
    await room.opening.begin();
    let failure: unknown = null;
    room.opening.failed.catch((error: unknown) => {
      failure = error;
    });
    room.store.become("verifying");
    await settle();
    expect(failure).to.equal(null);
    room.store.become("failed");
    await settle();
    expect(failure).to.be.instanceOf(LemonError).with.property("code", "receipt_store_unavailable");
  });

  it("drain calmly until they are hurried", async () => {
    const room = new Room();
    await room.opening.begin();
    await room.opening.drain(new AbortController().signal);
    expect(room.drains).to.deep.equal([undefined]);
    await room.opening.drain(AbortSignal.abort());
    expect(room.drains).to.deep.equal([undefined, 0]);
  });
});
