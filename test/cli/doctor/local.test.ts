/** Proves what the doctor says of roles that run here, or did: tokens, folders, identities, the port. */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { writeControllerRecord } from "../../../cli/controller-record.ts";
import { lockFile } from "../../../host/file-lock.ts";
import { ownIdentity } from "../../../host/process-identity.ts";
import { ExaminedMachine } from "../../support/examined-machine.ts";

describe("the doctor's look at the roles of this machine", () => {
  let machine: ExaminedMachine;
  beforeEach(async () => {
    machine = await ExaminedMachine.open();
  });
  afterEach(() => machine[Symbol.asyncDispose]());

  it("fails a token that others can read, and warns of what a killed controller left", async () => {
    await writeControllerRecord(machine.home, {
      port: 4_041,
      ...ownIdentity(),
      startTime: "gone",
      tokenFile: null,
    });
    writeFileSync(join(machine.home, "run", "control-plane-4041.token"), "t", { mode: 0o600 });
    chmodSync(join(machine.home, "run", "control-plane-4041.token"), 0o640);
    const { exitCode, find } = await machine.examine();
    expect(exitCode).to.equal(1);
    expect(find("run/control-plane-4041.json")).to.include({ level: "warn" });
    expect(find("run/control-plane-4041.json")?.mend).to.include("remove it");
    expect(find("run/control-plane-4041.token")).to.include({ level: "fail" });
    expect(find("run/control-plane-4041.token")?.finding).to.include("(mode)");
  });

  it("fails a folder of the state that others may enter, since no role starts with it", async () => {
    const folders = ["run", "controller", "nodes/worker-1"];
    for (const name of folders)
      mkdirSync(join(machine.home, name), { recursive: true, mode: 0o700 });
    expect((await machine.examine()).exitCode).to.equal(0);
    for (const name of folders) {
      chmodSync(join(machine.home, name), 0o750);
      const { exitCode, find } = await machine.examine();
      expect(exitCode).to.equal(1);
      const mend = `chmod 700 ${join(machine.home, name)}`;
      expect(find(`${name}/`)).to.include({ level: "fail", mend });
      expect(folders.filter((folder) => find(`${folder}/`) !== undefined)).to.deep.equal([name]);
      chmodSync(join(machine.home, name), 0o700);
    }
  });

  it("names the process that serves an identity, and those that nobody serves", async () => {
    for (const name of ["controller", "nodes/idle", "nodes/served"]) {
      mkdirSync(join(machine.home, name), { recursive: true, mode: 0o700 });
      writeFileSync(join(machine.home, name, "lock"), "");
    }
    const lock = lockFile(join(machine.home, "nodes/served/lock"));
    try {
      const { find } = await machine.examine();
      const here = process.platform === "linux";
      expect(find("controller here")?.level).to.equal("ok");
      expect(find("node idle here")?.finding).to.equal(here ? "not running" : "was started here");
      expect(find("node served here")?.finding).to.equal(
        here ? `served by process ${process.pid}` : "was started here",
      );
    } finally {
      lock?.release();
    }
  });

  it("warns when another program has the usual port, and knows its own", async () => {
    const other = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const address = other.address();
    if (typeof address !== "object" || address === null) throw new Error("no address");
    const { port } = address;
    const environment = { LEMON_CONTROL_PLANE_PORT: String(port) };
    expect((await machine.examine(environment)).find(`port ${port}`)).to.include({ level: "warn" });
    await writeControllerRecord(machine.home, { port, ...ownIdentity(), tokenFile: null });
    expect((await machine.examine(environment)).find(`port ${port}`)).to.include({ level: "ok" });
    await new Promise<void>((resolve) => other.close(() => resolve()));
  });
});
