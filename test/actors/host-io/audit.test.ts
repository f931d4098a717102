import { expect } from "chai";
import { HostIoAudit, type HostIoHandlers } from "../../../actors/host-io/audit.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { type LogLines, logLines } from "../../support/log-lines.ts";

const CANARY = "canary-3d1f70c2b9";
const CONTEXT = { deadlineMs: 1_000 };

describe("the audit of a node's files, processes and secrets", () => {
  let clock: FakeClock;
  let written: LogLines;
  let audit: HostIoAudit;

  beforeEach(() => {
    clock = new FakeClock();
    written = logLines();
    audit = new HostIoAudit({ clock, log: written.log });
  });

  const events = () =>
    written.lines.map(({ msg, count, method, outcome }) => {
      expect(msg).to.equal("execution node host_io");
      return [count, method, outcome];
    });
  const handlers: HostIoHandlers = {
    "node.fs.read": () => ({ path: CANARY, bytes: Buffer.from(CANARY) }),
    "node.fs.write": () => {
      throw new LemonError("no_space", { message: CANARY, details: { path: CANARY } });
    },
    "node.process.run": async () => {
      throw new LemonError("filesystem_outcome_unknown", { cause: new Error(CANARY) });
    },
    "node.secrets.set": async () => {
      throw new TypeError(CANARY);
    },
  };

  /** Asks each of the methods once, in turn; what they answered. */
  async function askAll(): Promise<unknown[]> {
    const answers: unknown[] = [];
    for (const handle of Object.values(audit.over(handlers))) {
      const answer = async () => await handle({ path: CANARY, value: CANARY }, CONTEXT);
      answers.push(await answer().catch((error: unknown) => error));
    }
    return answers;
  }

  it("is one event a call: a count of one, the method and a safe outcome, and nothing else", async () => {
    await askAll();
    expect(events()).to.deep.equal([
      [1, "node.fs.read", "done"],
      [1, "node.fs.write", "no_space"],
      [1, "node.process.run", "filesystem_outcome_unknown"],
      [1, "node.secrets.set", "internal_error"],
    ]);
    for (const { level, ...line } of written.lines) {
      expect(level).to.equal(30);
      expect(Object.keys(line).sort()).to.deep.equal(["count", "method", "msg", "outcome", "time"]);
    }
    expect(written.text()).to.not.include(CANARY);
  });

  it("hands answers and failures on as they are", async () => {
    const [read, write, run, set] = await askAll();
    expect(read).to.deep.equal({ path: CANARY, bytes: Buffer.from(CANARY) });
    expect(write).to.be.instanceOf(LemonError).and.include({ code: "no_space", message: CANARY });
    expect(run).to.include({ code: "filesystem_outcome_unknown" });
    expect(set).to.be.instanceOf(TypeError);
  });

  it("tells of a call when it is answered, not before", async () => {
    const answer = Promise.withResolvers<null>();
    const { "node.fs.stat": stat } = audit.over({ "node.fs.stat": () => answer.promise });
    const asked = stat?.(null, CONTEXT);
    await clock.advance(60_000);
    expect([events(), audit.counts()]).to.deep.equal([[], {}]);
    answer.resolve(null);
    await asked;
    expect(events()).to.deep.equal([[1, "node.fs.stat", "done"]]);
  });

  it("counts by method what was done, refused, and left unknown", async () => {
    await askAll();
    await askAll();
    expect(audit.counts()).to.deep.equal({
      "node.fs.read": { done: 2, refused: 0, unknown: 0 },
      "node.fs.write": { done: 0, refused: 2, unknown: 0 },
      "node.process.run": { done: 0, refused: 0, unknown: 2 },
      "node.secrets.set": { done: 0, refused: 0, unknown: 2 },
    });
  });

  describe("of more calls than a log should tell one by one", () => {
    const refused = new Set<number>();
    let asked = 0;
    const read = () => {
      asked += 1;
      if (refused.has(asked)) throw new LemonError("not_found");
    };
    const ask = async (times: number): Promise<void> => {
      const { "node.fs.read": handle } = audit.over({ "node.fs.read": read });
      for (let time = 0; time < times; time += 1) {
        const answer = async () => await handle?.(null, CONTEXT);
        await answer().catch(() => undefined);
      }
    };
    const told = () => events().reduce((sum, [count]) => sum + Number(count), 0);

    beforeEach(() => {
      asked = 0;
      refused.clear();
    });

    it("fifty in ten seconds have a line each, and what goes beyond is summed by kind at their end", async () => {
      refused.add(52).add(60);
      await ask(50);
      expect(written.lines).to.have.length(50);
      await ask(1_000);
      await clock.advance(9_999);
      expect(written.lines).to.have.length(50);
      await clock.advance(1);
      expect(events().slice(50)).to.deep.equal([
        [998, "node.fs.read", "done"],
        [2, "node.fs.read", "not_found"],
      ]);
      await ask(1);
      expect(events().at(-1)).to.deep.equal([1, "node.fs.read", "done"]);
      expect(told()).to.equal(1_051);
    });

    it("each is told exactly once, also when the worker life ends first", async () => {
      await ask(75);
      audit[Symbol.dispose]();
      expect(told()).to.equal(75);
      expect(clock.pending).to.equal(0);
    });

    it("no timer is left once it is quiet", async () => {
      await ask(75);
      await clock.advance(10_000);
      expect(clock.pending).to.equal(0);
      expect(told()).to.equal(75);
    });
  });
});
