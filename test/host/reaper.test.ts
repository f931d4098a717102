import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { z } from "zod";
import { ChildExits } from "../../host/child-exits.ts";
import { SubreaperContainment } from "../../host/containment/subreaper.ts";
import {
  isAlive,
  type ProcessIdentity,
  signalProcess,
  waitForEnd,
} from "../../host/process-identity.ts";
import { readProcessRow } from "../../host/process-table.ts";
import { Reaper } from "../../host/reaper.ts";
import { identityOf, MODES, type Mode, spawnerOf } from "../support/native-run.ts";

const WORKER = fileURLToPath(new URL("../support/spawning-worker.ts", import.meta.url));
const report = z.object({ reaper: z.number(), pids: z.array(z.number()) });

const GROUP = "sleep 600 & echo $!; wait";
const DETACHED =
  "(setsid sh -c 'sleep 600 >/dev/null 2>&1 </dev/null & echo $!' &); exec sleep 600";
const CLEAN = "echo $$; exec env -i /bin/sleep 600";
const HIDDEN =
  "(env -i setsid sh -c 'sleep 600 >/dev/null 2>&1 </dev/null & echo $!' &); exec sleep 600";

describe("the reaper of a worker", () => {
  const workers: ChildProcess[] = [];
  afterEach(() => {
    for (const worker of workers.splice(0)) worker.kill("SIGKILL");
  });

  async function startWorker(mode: Mode, ...scripts: string[]) {
    const worker = spawn(process.execPath, [WORKER, mode, ...scripts], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    workers.push(worker);
    const [line] = await once(worker.stdout, "data");
    const { reaper, pids } = report.parse(JSON.parse(String(line)));
    return { worker, reaper: identityOf(reaper), runs: pids.map(identityOf) };
  }

  async function expectEnded(identities: readonly ProcessIdentity[]): Promise<void> {
    for (const identity of identities) {
      expect(await waitForEnd(identity, 10_000), `pid ${identity.pid}`).to.equal(true);
    }
  }

  for (const mode of MODES) {
    it(`ends all its runs when the worker is killed, and then itself (${mode})`, async () => {
      const { worker, reaper, runs } = await startWorker(mode, GROUP, DETACHED, CLEAN, HIDDEN);
      expect(runs.length).to.equal(8);
      worker.kill("SIGKILL");
      await expectEnded([...runs, reaper]);
    });

    it(`ignores the signals that ask it to end, and leads a session of its own (${mode})`, async () => {
      const { worker, reaper, runs } = await startWorker(mode, GROUP);
      expect(readProcessRow(reaper.pid)?.session).to.equal(reaper.pid);
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) signalProcess(reaper, signal);
      worker.kill("SIGKILL");
      await expectEnded([...runs, reaper]);
    });
  }

  for (const mode of MODES) {
    it(`is replaced when it dies, and the new one knows the runs (${mode})`, async () => {
      const { worker, reaper, runs } = await startWorker(mode, CLEAN, GROUP);
      signalProcess(reaper, "SIGKILL");
      await expectEnded([reaper]);
      let successor: number | undefined;
      while (successor === undefined) {
        await new Promise((resolve) => setImmediate(resolve));
        successor = childNamed(worker.pid ?? 0, "lemon-reaper");
      }
      const next = identityOf(successor);
      worker.kill("SIGKILL");
      await expectEnded([...runs, next]);
    });
  }

  it("is replaced when it does not read any more, at no cost to what runs", async () => {
    const run = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
    const ended = once(run, "exit");
    const lost = Promise.withResolvers<void>();
    const exits = new ChildExits();
    const containment = new SubreaperContainment(exits);
    const reaper = new Reaper(exits, containment, lost.resolve);
    try {
      const stuck = identityOf(reaper.pid);
      reaper.watch(run.pid ?? 0);
      process.kill(stuck.pid, "SIGSTOP");
      while (isAlive(stuck)) {
        for (let n = 0; n < 500; n += 1) reaper.watch(process.pid)();
        await new Promise((resolve) => setImmediate(resolve));
      }
      await lost.promise;
      while (reaper.pid === stuck.pid) await new Promise((resolve) => setImmediate(resolve));
      expect(run.exitCode ?? run.signalCode).to.equal(null);
      // The new one knows it, and ends it when this end of its pipe is closed.
      const next = identityOf(reaper.pid);
      reaper.close();
      expect(await ended).to.deep.equal([null, "SIGKILL"]);
      expect(await waitForEnd(next, 10_000)).to.equal(true);
    } finally {
      run.kill("SIGKILL");
      await containment.close();
      exits.close();
    }
  });

  it("ends with the spawner", async () => {
    const spawner = spawnerOf(MODES[0] ?? "subreaper");
    const reaper = identityOf(spawner.reaperPid);
    expect(isAlive(reaper)).to.equal(true);
    await spawner.close();
    expect(await waitForEnd(reaper, 10_000)).to.equal(true);
  });
});

function childNamed(parent: number, name: string): number | undefined {
  const children = readFileSync(`/proc/${parent}/task/${parent}/children`, "latin1").split(" ");
  return children
    .filter(Boolean)
    .map(Number)
    .find((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0").includes(name);
      } catch {
        return false;
      }
    });
}
