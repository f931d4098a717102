import { expect } from "chai";
import type { Jobs } from "../../../actors/job/messages.ts";
import { JobOpening } from "../../../actors/job/opening.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { HostAgentError } from "../../../protocol/host-agent/errors.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { refusedWith } from "../../support/job-room.ts";
import { logLines } from "../../support/log-lines.ts";
import { StoreCondition } from "../../support/store-condition.ts";

describe("The opening of jobs", () => {
  let clock: FakeClock;
  let store: StoreCondition;
  let drained: number;
  let attempts: number;
  /** What the attempts to come meet. */
  let failures: LemonError[];
  let opening: JobOpening;

  beforeEach(() => {
    clock = new FakeClock();
    store = new StoreCondition();
    drained = 0;
    attempts = 0;
    failures = [];
    const jobs: Jobs = {
      start: (kind) => Promise.resolve({ job_id: "j_000001", kind, status: "running" }),
      get: () => Promise.reject(new HostAgentError("unknown-job")),
      list: () => Promise.resolve([]),
      cancel: () => Promise.reject(new HostAgentError("unknown-job")),
      log: () => Promise.reject(new HostAgentError("unknown-job")),
      drain: async () => {
        drained += 1;
      },
    };
    opening = new JobOpening({
      async openStore() {
        attempts += 1;
        const failure = failures.shift();
        if (failure !== undefined) throw failure;
        return store.asOpen();
      },
      startService: () => Promise.resolve(jobs),
      clock,
      log: logLines().log,
    });
  });
  afterEach(() => opening.close());

  it("serves once its store is open", async () => {
    await opening.begin();
    expect((await opening.start("free", {}, null)).status).to.equal("running");
    expect(await opening.list()).to.deep.equal([]);
    for (const call of [opening.get("x"), opening.cancel("x"), opening.log("x", null)]) {
      expect(await refusedWith(call)).to.equal("unknown-job");
    }
    await opening.drain(new AbortController().signal);
    expect(drained).to.equal(1);
  });

  it("answers every call with why it is not open, and tries again later and later", async () => {
    failures = Array.from({ length: 7 }, () => new LemonError("no_space"));
    await opening.begin();
    const calls = [
      () => opening.start("free", {}, null),
      () => opening.get("x"),
      () => opening.list(),
      () => opening.cancel("x"),
      () => opening.log("x", null),
    ];
    for (const call of calls) {
      const refusal = await call().catch((thrown: unknown) => thrown);
      expect(refusal).to.include({ code: "unavailable", status: 503 });
      expect(String(refusal)).to.include("no_space");
    }
    await opening.drain(new AbortController().signal);
    expect(attempts).to.equal(1);
  });

  it("is open after a failure that passed", async () => {
    failures = Array.from({ length: 7 }, () => new LemonError("receipt_store_unavailable"));
    await opening.begin();
    const at: number[] = [];
    for (let ms = 0; attempts < 8; ms += 500) {
      const before = attempts;
      await clock.advance(500);
      if (attempts > before) at.push(ms + 500);
    }
    expect(at).to.deep.equal([500, 1_500, 3_500, 7_500, 15_500, 30_500, 45_500]);
    expect(await opening.list()).to.deep.equal([]);
  });

  it("does not try a damaged store again", async () => {
    failures = [new LemonError("receipt_store_damaged")];
    await opening.begin();
    await clock.advance(60_000);
    expect(attempts).to.equal(1);
    expect(String(await opening.list().catch((thrown: unknown) => thrown))).to.include("damaged");
  });

  it("asks for another life when its store can not be written any more", async () => {
    await opening.begin();
    store.become("full");
    store.become("failed");
    const failure = await opening.failed.catch((thrown: unknown) => thrown);
    expect(failure).to.include({ code: "receipt_store_unavailable" });
  });

  it("closes its store, also one that opens only then, and tries no more", async () => {
    await opening.begin();
    await opening.close();
    expect(store.closed).to.equal(1);
    const late = new JobOpening({
      openStore: async () => store.asOpen(),
      startService: () => Promise.reject(new Error("never asked for")),
      clock,
      log: logLines().log,
    });
    const begun = late.begin();
    await late.close();
    await begun;
    expect(store.closed).to.equal(2);
  });
});
