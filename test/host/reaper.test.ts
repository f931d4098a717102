import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { z } from "zod";
import {
  isAlive,
  type ProcessIdentity,
  signalProcess,
  waitForEnd,
} from "../../host/process-identity.ts";
import { readProcessRow } from "../../host/process-table.ts";
import { identityOf, MODES, type Mode, spawnerOf } from "../support/native-run.ts";

const WORKER = fileURLToPath(new URL("../support/spawning-worker.ts", import.meta.url));
const report = z.object({ reaper: z.number(), pids: z.array(z.number()) });

const GROUP = "sleep 600 & echo $!; wait";
const DETACHED =
  "(setsid sh -c 'sleep 600 >/dev/null 2>&1 </dev/null & echo $!' &); exec sleep 600";
const CLEAN = "echo $$; exec env -i /bin/sleep 600";

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
      const { worker, reaper, runs } = await startWorker(mode, GROUP, DETACHED, CLEAN);
      expect(runs.length).to.equal(6);
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
