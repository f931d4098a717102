import { expect } from "chai";
import fc from "fast-check";
import { createRation, type Share } from "../../../transport/link/ration.ts";
import { FakeClock } from "../../support/fake-clock.ts";

/** One node's share of a window of 20 ms at 8 MB/s. */
const SHARE = 160_000;
const CHUNK = 65_536;

/** A node that sends in chunks whenever it may, and notes how much it got through. */
class Sender {
  held = false;
  sent = 0;
  readonly share: Share;

  constructor(ration: ReturnType<typeof createRation>) {
    this.share = ration.join({
      hold: () => {
        expect(this.held, "held twice").to.equal(false);
        this.held = true;
      },
      release: () => {
        expect(this.held, "released twice").to.equal(true);
        this.held = false;
      },
    });
  }

  send(bytes = CHUNK): void {
    this.sent += bytes;
    this.share.took(bytes, 0);
  }
}

describe("the ration of the controller's line", () => {
  let clock: FakeClock;
  let cpuMs: number;
  let ration: ReturnType<typeof createRation>;

  beforeEach(() => {
    clock = new FakeClock();
    cpuMs = 0;
    ration = createRation({ clock, loopCpuMs: () => cpuMs });
  });

  /** Lets everybody send all they may, step by step, for so long. */
  async function run(ms: number, flooders: readonly Sender[], each: () => void = () => undefined) {
    for (let passed = 0; passed < ms; passed += 5) {
      for (const sender of flooders) {
        for (let chunk = 0; chunk < 20 && !sender.held; chunk++) sender.send();
      }
      each();
      await clock.advance(5);
    }
  }

  it("never holds a node that is in use alone", async () => {
    const alone = new Sender(ration);
    const idle = new Sender(ration);
    await run(1_000, [alone], () => expect(alone.held).to.equal(false));
    expect(alone.sent).to.be.above(200_000_000);
    expect(idle.sent).to.equal(0);
  });

  it("holds a flood to 8 MB/s from the moment that another node is in use, and never that one", async () => {
    const flood = new Sender(ration);
    const other = new Sender(ration);
    await run(100, [flood]);
    other.send(200);
    flood.send(SHARE);
    expect(flood.held).to.equal(true);
    const before = flood.sent;
    await run(1_000, [flood], () => {
      other.send(200);
      expect(other.held).to.equal(false);
    });
    expect(flood.sent - before).to.be.within(7_800_000, 8_400_000);
  });

  it("makes room as soon as another node is called, before its answer", async () => {
    const flood = new Sender(ration);
    const called = new Sender(ration);
    await run(100, [flood]);
    called.share.gave(200);
    flood.send(SHARE);
    expect(flood.held).to.equal(true);
  });

  it("takes a PING for no use of the line, and 64 bytes for one", async () => {
    const flood = new Sender(ration);
    const other = new Sender(ration);
    await run(100, [flood], () => {
      other.share.took(12, 1);
      other.share.gave(12);
    });
    expect(flood.held).to.equal(false);
    other.share.gave(64);
    flood.send(SHARE);
    expect(flood.held).to.equal(true);
  });

  it("lets a held node go on at full speed 100 ms after the other was last in use", async () => {
    const flood = new Sender(ration);
    const other = new Sender(ration);
    other.send(200);
    await run(90, [flood]);
    expect(flood.sent).to.be.below(1_000_000);
    await run(60, [flood]);
    const before = flood.sent;
    await run(100, [flood], () => expect(flood.held).to.equal(false));
    expect(flood.sent - before).to.be.above(20_000_000);
  });

  it("does not make a node pay for what it sent while it was free", async () => {
    const sender = new Sender(ration);
    const other = new Sender(ration);
    await run(15, [sender]);
    expect(sender.sent).to.be.above(3_000_000);
    other.send(200);
    sender.send();
    expect(sender.held).to.equal(true);
    await clock.advance(45);
    expect(sender.held).to.equal(false);
  });

  it("shares alike between two that flood, and 32 MB/s among many", async () => {
    for (const count of [2, 4, 16]) {
      const own = createRation({ clock, loopCpuMs: () => cpuMs });
      const flooders = Array.from({ length: count }, () => new Sender(own));
      await run(200, flooders);
      const before = flooders.map(({ sent }) => sent);
      await run(2_000, flooders);
      const rates = flooders.map(({ sent }, at) => (sent - (before[at] ?? 0)) / 2);
      const fair = Math.min(8_000_000, 32_000_000 / count);
      for (const rate of rates)
        expect(rate, `${count} flooders`).to.be.within(fair * 0.9, fair * 1.1);
      for (const { share } of flooders) share.leave();
      await clock.advance(200);
    }
  });

  it("counts a message as a kilobyte beside its bytes: 7,000 small ones a second", async () => {
    const flood = new Sender(ration);
    const other = new Sender(ration);
    let messages = 0;
    for (let passed = 0; passed < 2_000; passed += 5) {
      other.share.gave(200);
      for (; !flood.held; messages += 100) flood.share.took(10_000, 100);
      await clock.advance(5);
    }
    expect(messages / 2).to.be.within(7_000, 7_600);
  });

  it("lets a node alone send 30,000 messages a second, and holds it beyond", async () => {
    const alone = new Sender(ration);
    for (const [perStep, heldAtAll] of [
      [149, false],
      [400, true],
    ] as const) {
      let messages = 0;
      let held = false;
      for (let passed = 0; passed < 2_000; passed += 5) {
        for (let batch = 0; batch < 4 && !alone.held; batch++) {
          alone.share.took(perStep * 25, perStep / 4);
          messages += perStep / 4;
        }
        held ||= alone.held;
        await clock.advance(5);
      }
      expect(held, `${perStep} in 5 ms`).to.equal(heldAtAll);
      expect(messages / 2).to.be.within(29_000, 32_000);
    }
  });

  describe("while the event loop lags under one node's messages", () => {
    /** One window in which the loop worked for so long before it came to its timers. */
    async function window(sender: Sender, workedMs: number): Promise<void> {
      for (let chunk = 0; chunk < 5 && !sender.held; chunk++) sender.send();
      cpuMs += workedMs;
      clock.stall(Math.max(20, workedMs));
      await clock.advance(0);
    }

    it("holds that node to its share for half a second, though nobody else is in use", async () => {
      const flood = new Sender(ration);
      await window(flood, 36);
      flood.send(SHARE);
      expect(flood.held).to.equal(false);
      await window(flood, 36);
      flood.send(SHARE);
      expect(flood.held).to.equal(true);
      const before = flood.sent;
      await run(480, [flood]);
      expect(flood.sent - before).to.be.within(3_600_000, 4_200_000);
      await run(100, [flood]);
      expect(flood.held).to.equal(false);
      expect(flood.sent - before).to.be.above(10_000_000);
    });

    it("is not fooled by one long pause, nor by work that stays just within the bound", async () => {
      const sender = new Sender(ration);
      for (const workedMs of [400, 10, 36, 35, 36, 10]) {
        await window(sender, workedMs);
        sender.send();
        expect(sender.held).to.equal(false);
      }
    });

    it("does not blame nodes for a machine that has no processor to spare", async () => {
      const sender = new Sender(ration);
      for (let late = 0; late < 5; late++) {
        for (let chunk = 0; chunk < 5; chunk++) sender.send();
        cpuMs += 12;
        clock.stall(150);
        await clock.advance(0);
        expect(sender.held).to.equal(false);
      }
    });

    it("holds longer, up to 4 s, when the flood goes on at once", async () => {
      const flood = new Sender(ration);
      const lasted: number[] = [];
      for (let lag = 0; lag < 6; lag++) {
        await window(flood, 36);
        await window(flood, 36);
        const fromMs = clock.monotonicMs();
        for (let free = false; !free; await clock.advance(20)) {
          for (let chunk = 0; chunk < 20 && !flood.held; chunk++) flood.send();
          free = !flood.held;
        }
        lasted.push(clock.monotonicMs() - fromMs);
      }
      const expected = [500, 1_000, 2_000, 4_000, 4_000, 4_000];
      for (const [at, ms] of lasted.entries()) {
        expect(ms, `lag ${at}`).to.be.within((expected[at] ?? 0) - 60, (expected[at] ?? 0) + 60);
      }
    });
  });

  it("sets no timer for what stays below a share, and none once nothing is sent", async () => {
    const sender = new Sender(ration);
    const other = new Sender(ration);
    for (let window = 0; window < 10; window++) {
      sender.send(SHARE - 1);
      other.send(200);
      expect(clock.pending).to.equal(0);
      await clock.advance(20);
    }
    sender.send(SHARE);
    expect([sender.held, clock.pending]).to.deep.equal([true, 1]);
    await clock.advance(60);
    expect([sender.held, clock.pending]).to.deep.equal([false, 0]);
  });

  it("calls nobody who has left", async () => {
    const flood = new Sender(ration);
    const other = new Sender(ration);
    other.send(200);
    for (let chunk = 0; chunk < 3; chunk++) flood.send();
    expect(flood.held).to.equal(true);
    flood.share.leave();
    flood.held = false;
    await clock.advance(200);
    expect(clock.pending).to.equal(0);
  });

  it("always releases in the end, whatever is sent, called and left when", async () => {
    const action = fc.record({
      who: fc.nat(3),
      bytes: fc.integer({ min: 1, max: 200_000 }),
      gave: fc.boolean(),
      waitMs: fc.integer({ min: 0, max: 40 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 30 }), async (actions) => {
        const own = createRation({ clock, loopCpuMs: () => cpuMs });
        const senders = Array.from({ length: 4 }, () => new Sender(own));
        for (const { who, bytes, gave, waitMs } of actions) {
          const sender = senders[who];
          if (gave) sender?.share.gave(bytes);
          else if (sender?.held === false) sender.send(bytes);
          clock.stall(waitMs);
        }
        await clock.advance(3_000);
        expect(senders.map(({ held }) => held)).to.deep.equal([false, false, false, false]);
        expect(clock.pending).to.equal(0);
      }),
      { numRuns: 50 },
    );
  });
});
