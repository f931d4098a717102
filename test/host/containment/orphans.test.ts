import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect } from "chai";
import { ChildExits } from "../../../host/child-exits.ts";
import { reapOrphans } from "../../../host/containment/orphans.ts";
import { isSubreaper, setSubreaper } from "../../../host/native/prctl.ts";
import { identify, waitForEnd } from "../../../host/process-identity.ts";
import { readProcessRow } from "../../../host/process-table.ts";

describe("an orphan that was handed to this process", () => {
  it("is reaped when it ends, and no child of Node's own is taken away", async () => {
    setSubreaper(true);
    expect(isSubreaper()).to.equal(true);
    const exits = new ChildExits();
    const stop = reapOrphans(exits, 0);
    const parent = spawn("sh", ["-c", "sleep 600 & echo $!"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    const left = once(parent, "exit");
    const [line] = await once(parent.stdout, "data");
    const pid = Number(String(line));
    expect(await left).to.deep.equal([0, null]);
    expect(readProcessRow(pid)?.parent).to.equal(process.pid);

    const others = Array.from({ length: 20 }, (_, code) =>
      spawn("sh", ["-c", `exit ${code}`], { stdio: "ignore" }),
    );
    const codes = Promise.all(others.map(async (other) => (await once(other, "exit"))[0]));
    const orphan = identify(pid);
    process.kill(pid, "SIGKILL");
    if (orphan !== null) await waitForEnd(orphan, 10_000);
    while (readProcessRow(pid) !== null) await new Promise((resolve) => setImmediate(resolve));
    expect(await codes).to.deep.equal(Array.from({ length: 20 }, (_, code) => code));
    stop();
    exits.close();
    setSubreaper(false);
    expect(isSubreaper()).to.equal(false);
  });
});
