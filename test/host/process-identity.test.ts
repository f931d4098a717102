import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { expect } from "chai";
import fc from "fast-check";
import {
  identify,
  isAlive,
  ownIdentity,
  processIdentity,
  signalProcess,
  waitForEnd,
} from "../../host/process-identity.ts";
import { parseProcessRow } from "../../host/process-table.ts";

describe("the identity of a process", () => {
  const children: ChildProcess[] = [];
  function child(command: string, ...args: string[]): number {
    const started = spawn(command, args, { stdio: "ignore" });
    children.push(started);
    if (started.pid === undefined) throw new Error("no child");
    return started.pid;
  }
  afterEach(() => {
    for (const started of children.splice(0)) started.kill("SIGKILL");
  });

  function identityOf(pid: number) {
    const identity = identify(pid);
    if (identity === null) throw new Error("it lives");
    return identity;
  }

  it("is the same each time it is read, and survives being written down", () => {
    const identity = identityOf(child("sleep", "60"));
    expect(identityOf(identity.pid)).to.deep.equal(identity);
    expect(processIdentity.parse(JSON.parse(JSON.stringify(identity)))).to.deep.equal(identity);
    expect(isAlive(identity)).to.equal(true);
  });

  it("of this process is alive", () => {
    expect(ownIdentity().pid).to.equal(process.pid);
    expect(isAlive(ownIdentity())).to.equal(true);
  });

  it("is not alive under another start time, and is then never signalled", () => {
    const identity = identityOf(child("sleep", "60"));
    const impostor = { pid: identity.pid, startTime: `${identity.startTime}0` };
    expect(isAlive(impostor)).to.equal(false);
    expect(signalProcess(impostor, "SIGKILL")).to.equal(false);
    expect(isAlive(identity)).to.equal(true);
  });

  it("is what a signal is sent to", async () => {
    const pid = child("sleep", "60");
    const identity = identityOf(pid);
    const exit = once(children[0] ?? process, "exit");
    expect(signalProcess(identity, "SIGTERM")).to.equal(true);
    expect(await exit).to.deep.equal([null, "SIGTERM"]);
    expect(isAlive(identity)).to.equal(false);
    expect(signalProcess(identity, "SIGTERM")).to.equal(false);
  });

  it("does not exist for a process that ended and was not reaped", async () => {
    // The shell becomes `sleep`, which never reaps the child that the shell had started.
    const parent = spawn("sh", ["-c", "sleep 0 & echo $!; exec sleep 60"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    children.push(parent);
    const [line] = await once(parent.stdout, "data");
    const pid = Number(String(line));
    const identity = identify(pid);
    if (identity !== null) await waitForEnd(identity, 10_000);
    expect(identify(pid)).to.equal(null);
  });

  it("can be waited for until its end, though it is nobody's child here", async () => {
    const parent = spawn("sh", ["-c", "sleep 60 & echo $!; wait"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    children.push(parent);
    const [line] = await once(parent.stdout, "data");
    const identity = identityOf(Number(String(line)));
    expect(await waitForEnd(identity, 0)).to.equal(false);
    expect(await waitForEnd(identity, 20)).to.equal(false);
    const ended = waitForEnd(identity, 10_000);
    signalProcess(identity, "SIGKILL");
    expect(await ended).to.equal(true);
    expect(await waitForEnd(identity, 10_000)).to.equal(true);
  });

  it("is not found for a pid that nobody has", () => {
    // Above the largest pid_max of Linux (proc_sys_kernel(5)).
    expect(identify(4_194_305)).to.equal(null);
    expect(isAlive({ pid: 4_194_305, startTime: "x" })).to.equal(false);
    expect(signalProcess({ pid: 4_194_305, startTime: "x" }, "SIGKILL")).to.equal(false);
  });
});

describe("a line of /proc/<pid>/stat", () => {
  const tail = (start: number) =>
    `S 7 8 9 ${Array.from({ length: 15 }, () => "0").join(" ")} ${start} 0 0`;

  it("is read right whatever the process calls itself", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 15 }), fc.nat(), (name, start) => {
        expect(parseProcessRow(`42 (${name}) ${tail(start)}`)).to.deep.equal({
          pid: 42,
          state: "S",
          parent: 7,
          group: 8,
          session: 9,
          startTicks: start,
        });
      }),
    );
    expect(parseProcessRow(`42 (a) R 1 1 1 (b) ${tail(5)}`)?.startTicks).to.equal(5);
  });

  it("is refused when it is cut short or something else", () => {
    for (const line of [
      "",
      "42",
      "42 (x",
      "42 (x) ",
      "42 (x) S 1 2",
      "x (y) S 1 1 1",
      `(x) ${tail(1)}`,
    ])
      expect(parseProcessRow(line), line).to.equal(null);
  });
});
