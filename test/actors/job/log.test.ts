import { expect } from "chai";
import fc from "fast-check";
import { forgottenLog, JobLog } from "../../../actors/job/log.ts";
import type { Frame, FrameReader, LogLine } from "../../../actors/job/messages.ts";
import { FakeClock, settle } from "../../support/fake-clock.ts";

type Frames = readonly Frame<LogLine>[];

/** Calls of `next` that had nothing yet. */
const pending = new WeakMap<FrameReader<LogLine>, Promise<Frames | null>>();

/** All that a reader is given until there is nothing, or the end. */
async function drain(reader: FrameReader<LogLine>): Promise<Frame<LogLine>[]> {
  const all: Frame<LogLine>[] = [];
  for (;;) {
    const next = pending.get(reader) ?? reader.next();
    pending.set(reader, next);
    const batch = await Promise.race([next, settle().then(() => "nothing" as const)]);
    if (batch === "nothing") return all;
    pending.delete(reader);
    if (batch === null) return all;
    all.push(...batch);
  }
}

const lineOf = ({ data }: Frame<LogLine>): string | null => ("lost" in data ? null : data.line);
const lost = (id: number): unknown => ({ id, data: { lost: true } });

/** A line and its weight in the ring are so many that exactly 256 of them fit. */
const KIB = "k".repeat(1024 - 32);

function logOf(count: number, line = KIB): JobLog {
  const log = new JobLog(new FakeClock());
  for (let n = 0; n < count; n += 1) log.append("stdout", line);
  return log;
}

describe("The log of a job", () => {
  it("gives a line its id, the time, its stream and its text", async () => {
    const log = new JobLog(new FakeClock(Date.UTC(2026, 10, 30)));
    log.append("stderr", "a\r\nb\u0000");
    expect(await log.read(null).next()).to.deep.equal([
      { id: 1, data: { ts: "2026-11-30T00:00:00.000Z", stream: "stderr", line: "a\r\nb\u0000" } },
    ]);
  });

  it("gives whoever follows each line as it comes, and the end", async () => {
    const log = logOf(0);
    const reader = log.read(null);
    const next = reader.next();
    log.append("stdout", "one");
    log.append("stdout", "two");
    expect((await next)?.map(lineOf)).to.deep.equal(["one", "two"]);
    const last = reader.next();
    log.end();
    log.append("stdout", "late");
    expect(await last).to.equal(null);
    expect(await reader.next()).to.equal(null);
  });

  it("keeps 256 KiB, and not a line more", async () => {
    const kept = await drain(logOf(256).read(0));
    expect(kept.map(({ id }) => id)).to.deep.equal(Array.from({ length: 256 }, (_, at) => at + 1));
    const [first, ...rest] = await drain(logOf(257).read(0));
    expect(first).to.deep.equal(lost(1));
    expect(rest).to.have.length(256);
    expect(rest[0]?.id).to.equal(2);
  });

  it("gives a new reader all that is kept, and does not call lost what it never asked for", async () => {
    const frames = await drain(logOf(300).read(null));
    expect(frames[0]?.id).to.equal(45);
    expect(frames).to.have.length(256);
    expect(frames.every((frame) => lineOf(frame) !== null)).to.equal(true);
  });

  it("goes on exactly behind the last event, at both ends of what is kept", async () => {
    const log = logOf(300);
    expect((await drain(log.read(44)))[0]?.id).to.equal(45);
    expect((await drain(log.read(43)))[0]).to.deep.equal(lost(44));
    expect((await drain(log.read(299))).map(({ id }) => id)).to.deep.equal([300]);
    expect(await drain(log.read(300))).to.deep.equal([]);
    expect(await drain(log.read(301))).to.deep.equal([]);
  });

  it("says lost to a last event that is none of its own", async () => {
    expect(await drain(logOf(0).read(5))).to.deep.equal([lost(0)]);
    expect(await drain(logOf(0).read(0))).to.deep.equal([]);
    expect((await drain(logOf(3).read(-1))).map(({ id }) => id)).to.deep.equal([0, 1, 2, 3]);
  });

  it("lets a reader that names no end of the log hear what comes next", async () => {
    const log = logOf(2);
    const reader = log.read(99);
    log.append("stdout", "next");
    expect((await drain(reader)).map(lineOf)).to.deep.equal(["next"]);
  });

  it("says lost once to a reader that fell behind, then gives all that is kept", async () => {
    const log = logOf(0);
    const reader = log.read(null);
    // What waits for a reader is 2 MiB; this is four times as much.
    for (let n = 0; n < 8_192; n += 1) log.append("stdout", KIB);
    const frames = await drain(reader);
    expect(frames.filter((frame) => lineOf(frame) === null)).to.have.length(1);
    const at = frames.findIndex((frame) => lineOf(frame) === null);
    expect(at).to.equal(2_048);
    expect(frames.slice(at + 1)).to.have.length(256);
    expect(frames.at(-1)?.id).to.equal(8_192);
  });

  it("loses nothing of a burst of 1 MiB for whoever follows, though the ring keeps less", async () => {
    const log = logOf(0);
    const readers = [log.read(null), log.read(null), log.read(0)];
    for (let n = 0; n < 1_024; n += 1) log.append("stdout", KIB);
    for (const reader of readers) {
      const ids = (await drain(reader)).map(({ id }) => id);
      expect(ids).to.deep.equal(Array.from({ length: 1_024 }, (_, at) => at + 1));
    }
  });

  it("does not wait for a reader that never asks, and forgets one that is closed", async () => {
    const log = logOf(0);
    const idle = log.read(null);
    const closed = log.read(null);
    const next = closed.next();
    closed.close();
    expect(await next).to.equal(null);
    log.append("stdout", "one");
    expect(await closed.next()).to.equal(null);
    expect((await drain(idle)).map(lineOf)).to.deep.equal(["one"]);
  });

  it("keeps a line of 1 MiB less its frame whole, and parts a longer one between characters", async () => {
    const most = "x".repeat(1_048_576 - 512 - 2);
    const log = logOf(0);
    const reader = log.read(null);
    const lines: string[] = [];
    for (const text of [most, `${most}x`, "\u{1f600}".repeat(300_000), "\u0000".repeat(200_000)]) {
      log.append("stdout", text);
      lines.push(...(await drain(reader)).map((frame) => lineOf(frame) ?? ""));
    }
    expect(lines[0]).to.equal(most);
    expect(lines.slice(1, 3).join("")).to.equal(`${most}x`);
    expect(lines.join("")).to.have.length(2 * most.length + 1 + 600_000 + 200_000);
    for (const line of lines) {
      expect(Buffer.byteLength(JSON.stringify(line))).to.be.lessThan(1_048_576 - 511);
      expect(line.isWellFormed()).to.equal(true);
    }
  });

  it("keeps the latest line whatever it weighs", async () => {
    const log = logOf(3);
    log.append("stdout", "x".repeat(500_000));
    expect((await drain(log.read(null))).map(({ id }) => id)).to.deep.equal([4]);
  });

  it("replays to any reader what it would have followed, or says that it can not", async () => {
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.record({ write: fc.integer({ min: 1, max: 90_000 }) }) },
      { weight: 2, arbitrary: fc.constant("read" as const) },
      { weight: 1, arbitrary: fc.constant("reconnect" as const) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const log = new JobLog(new FakeClock());
        let reader = log.read(null);
        let place = 0;
        let written = 0;
        const read = async (): Promise<void> => {
          for (const frame of await drain(reader)) {
            if (lineOf(frame) === null) expect(frame.id).to.be.greaterThan(place);
            else {
              expect(frame.id).to.equal(place + 1);
              expect(lineOf(frame)).to.equal(`${frame.id}`.padEnd((lineOf(frame) ?? "").length));
            }
            place = frame.id;
          }
        };
        for (const one of steps) {
          if (one === "read") await read();
          else if (one === "reconnect") {
            reader.close();
            reader = log.read(place);
          } else {
            written += 1;
            log.append("stdout", `${written}`.padEnd(one.write));
          }
        }
        await read();
        expect(place).to.equal(written);
      }),
      { numRuns: 40 },
    );
  });
});

describe("The log of a job of which nothing is kept", () => {
  it("is one lost frame and the end, or the end alone where there never was a line", async () => {
    const had = forgottenLog(true);
    expect(await had.next()).to.deep.equal([lost(0)]);
    expect(await had.next()).to.equal(null);
    expect(await forgottenLog(false).next()).to.equal(null);
  });
});
