import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { JobLog } from "../../../actors/job/log.ts";
import { lastEventIdOf } from "../../../gateways/unix-http/sse.ts";
import { systemClock } from "../../../host/clock.ts";
import { dataOf, idsOf, type StreamDoor, streamDoor } from "../../support/stream-door.ts";

const READER = fileURLToPath(new URL("../../support/stream-reader.ts", import.meta.url));

/** A reader in a process of its own, which can be killed. */
class Brain {
  readonly child: ChildProcess;
  #text = "";
  #check = (): void => {};

  constructor(socketPath: string, lastEventId: number | null) {
    const last = lastEventId === null ? [] : [String(lastEventId)];
    this.child = fork(READER, [socketPath, ...last], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.child.on("message", (frame) => {
      this.#text += String(frame);
      this.#check();
    });
  }

  get ids(): number[] {
    return idsOf(this.#text);
  }

  get data(): unknown[] {
    return dataOf(this.#text);
  }

  /** Resolves when it has seen the event. */
  sees(id: number): Promise<void> {
    return new Promise((resolve) => {
      this.#check = () => {
        if (this.ids.includes(id)) resolve();
      };
      this.#check();
    });
  }

  async kill(): Promise<void> {
    if (this.child.signalCode !== null) return;
    const gone = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await gone;
  }
}

const numbers = (from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, at) => from + at);

describe("The log of a job over the socket", () => {
  let log: JobLog;
  let door: StreamDoor;
  const brains: Brain[] = [];

  beforeEach(async () => {
    log = new JobLog(systemClock);
    door = await streamDoor(({ "last-event-id": last }) =>
      log.read(lastEventIdOf(typeof last === "string" ? last : undefined)),
    );
  });
  afterEach(async () => {
    for (const brain of brains.splice(0)) await brain.kill();
    await door[Symbol.asyncDispose]();
  });

  function connect(lastEventId: number | null): Brain {
    const brain = new Brain(door.path, lastEventId);
    brains.push(brain);
    return brain;
  }

  const write = (count: number, text = "line"): void => {
    for (let n = 0; n < count; n += 1) log.append("stdout", text);
  };

  it("goes on without a gap for a brain that was killed in the midst of it", async () => {
    const first = connect(null);
    write(50);
    await first.sees(50);
    const closed = door.closed();
    await first.kill();
    await closed;
    const last = first.ids.at(-1) ?? 0;
    write(100);
    const second = connect(last);
    await second.sees(150);
    write(1);
    await second.sees(151);
    expect([...first.ids, ...second.ids]).to.deep.equal(numbers(1, 151));
    expect(JSON.stringify(second.data)).not.to.include("lost");
  });

  it("says once that lines are lost when they have left the buffer meanwhile", async () => {
    const first = connect(null);
    write(10);
    await first.sees(10);
    await first.kill();
    write(1_000, "x".repeat(1_024 - 32));
    const second = connect(10);
    await second.sees(1_010);
    expect(second.data[0]).to.deep.equal({ lost: true });
    expect(second.ids).to.deep.equal([754, ...numbers(755, 1_010)]);
    expect(second.data.filter((data) => JSON.stringify(data) === '{"lost":true}')).to.have.length(
      1,
    );
  });

  it("carries sixteen readers through 2,000 lines, none of which is missing", async () => {
    const seen = await Promise.all(Array.from({ length: 16 }, () => door.follow()));
    const text = "x".repeat(200);
    for (let turn = 0; turn < 100; turn += 1) {
      write(20, text);
      await new Promise((resolve) => setImmediate(resolve));
    }
    log.end();
    for (const one of seen) {
      expect(await one.ended).to.equal(true);
      expect(idsOf(one.text())).to.deep.equal(numbers(1, 2_000));
    }
  });

  it("carries a line of 1 MiB, and text of many bytes, whole", async () => {
    const seen = await door.follow();
    const long = "x".repeat(1_048_000);
    const wide = "\u{1f600}€é\u0000\r\n".repeat(20_000);
    for (const text of [long, wide, "end"]) {
      log.append("stdout", text);
      await seen.until((all) => idsOf(all).length >= 1);
    }
    log.end();
    await seen.ended;
    const lines = dataOf(seen.text()).map((data) => (data as { line: string }).line);
    expect(lines[0] === long).to.equal(true);
    expect(lines.slice(1, -1).join("") === wide).to.equal(true);
    expect(lines.at(-1)).to.equal("end");
  });

  it("ends for whoever reads the log of a job that has ended", async () => {
    write(3);
    log.end();
    const seen = await door.follow({ "Last-Event-ID": "1" });
    expect(await seen.ended).to.equal(true);
    expect(idsOf(seen.text())).to.deep.equal([2, 3]);
  });
});
