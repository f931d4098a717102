import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { expect } from "chai";
import {
  childrenByScan,
  childrenOf,
  hasEnded,
  readAllRows,
  readProcessRow,
} from "../../host/process-table.ts";

describe("the table of processes", () => {
  const children: ChildProcess[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
  });

  it("tells the children of a process, whichever of its threads forked them, both ways", async () => {
    // Node forks from its main thread here, and from a worker's thread.
    const script = `
      const { spawn } = require("node:child_process");
      const { Worker } = require("node:worker_threads");
      const first = spawn("sleep", ["600"]);
      new Worker('const { parentPort } = require("node:worker_threads"); parentPort.postMessage(require("node:child_process").spawn("sleep", ["600"]).pid)', { eval: true })
        .on("message", (second) => console.log(first.pid, second));`;
    const parent = spawn(process.execPath, ["-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.push(parent);
    const [line] = await once(parent.stdout, "data");
    const pids = String(line).trim().split(" ").map(Number).sort();
    try {
      expect(childrenOf(parent.pid ?? 0).sort()).to.deep.equal(pids);
      expect(childrenByScan(parent.pid ?? 0).sort()).to.deep.equal(pids);
    } finally {
      for (const pid of pids) process.kill(pid, "SIGKILL");
    }
  });

  it("tells this process's own, and a zombie as what it is", async () => {
    const child = spawn("sleep", ["600"], { stdio: "ignore" });
    children.push(child);
    const pid = child.pid ?? 0;
    expect(childrenOf(process.pid)).to.include(pid);
    expect(readProcessRow(pid)).to.include({ pid, parent: process.pid });
    process.kill(pid, "SIGKILL");
    // No turn of the event loop, so Node has not reaped it.
    let row = readProcessRow(pid);
    while (row !== null && !hasEnded(row)) row = readProcessRow(pid);
    expect(row).to.include({ state: "Z", parent: process.pid });
    expect(childrenOf(process.pid)).to.include(pid);
    expect(readAllRows().map((one) => one.pid)).to.include(process.pid);
    await once(child, "exit");
    expect(readProcessRow(pid)).to.equal(null);
    expect(childrenOf(pid)).to.deep.equal([]);
  });
});
