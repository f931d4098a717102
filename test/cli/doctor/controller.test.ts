/** Proves what the doctor says of a controller, its clock and its nodes. */
import { writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { writeControllerRecord } from "../../../cli/controller-record.ts";
import type { Level } from "../../../cli/doctor/check.ts";
import { ownIdentity } from "../../../host/process-identity.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { ExaminedMachine } from "../../support/examined-machine.ts";
import { FakeControlPlane } from "../../support/fake-control-plane.ts";
import { nodeDescription, nodeList, nodeRow } from "../../support/node-rows.ts";

describe("the doctor's look at a controller", () => {
  let machine: ExaminedMachine;
  beforeEach(async () => {
    machine = await ExaminedMachine.open();
  });
  afterEach(() => machine[Symbol.asyncDispose]());

  it("only warns when no controller runs here and none was named", async () => {
    const { exitCode, find } = await machine.examine({ LEMON_CONTROLLER: "" });
    expect(exitCode).to.equal(0);
    expect(find("controller")).to.include({ level: "warn", finding: "none runs here" });
    expect(find("controller")?.mend).to.include("start one with `lemon up`");
  });

  it("says how to mend a running controller's token that others can read, not to start another", async () => {
    const tokenFile = join(machine.home, "run", "control-plane-4042.token");
    await writeControllerRecord(machine.home, { port: 4_042, ...ownIdentity(), tokenFile });
    writeFileSync(tokenFile, "t".repeat(43), { mode: 0o640 });
    const { find } = await machine.examine({ LEMON_CONTROLLER: "", LEMON_WS_TOKEN: "" });
    expect(find("controller")?.finding).to.include("can not be used (mode)");
    expect(find("controller")?.mend).to.include("chmod 600").and.not.include("lemon up");
  });

  it("fails when the controller that was named does not answer", async () => {
    const gone = await FakeControlPlane.start();
    const { url } = gone;
    await gone.stop();
    const { exitCode, find } = await machine.examine({ LEMON_CONTROLLER: url });
    expect(exitCode).to.equal(1);
    expect(find("controller")?.finding).to.include("ECONNREFUSED");
    expect(find("clock")).to.include({ level: "warn" });
  });

  it("fails a wrong token, and says which variable holds the right one", async () => {
    const { find } = await machine.examine({ LEMON_WS_TOKEN: "guess" });
    expect(find("controller")).to.include({ level: "fail" });
    expect(find("controller")?.mend).to.include("LEMON_WS_TOKEN");
  });

  const nodes: readonly {
    readonly name: string;
    readonly node: ReturnType<typeof nodeDescription>;
    readonly level: Level;
    readonly finding: string;
  }[] = [
    {
      name: "is offline",
      node: nodeDescription({ status: "offline" }),
      level: "warn",
      finding: "offline",
    },
    {
      name: "is revoked",
      node: nodeDescription({ status: "offline" }, { revoked: true }),
      level: "warn",
      finding: "revoked",
    },
    {
      name: "can not prove that it syncs",
      node: nodeDescription({}, { receiptStore: "durability_unproven" }),
      level: "fail",
      finding: "durability_unproven",
    },
    {
      name: "is in a state that only a newer version knows",
      node: nodeDescription({}, { receiptStore: "on_holiday" }),
      level: "fail",
      finding: "on_holiday",
    },
    {
      name: "has 899 spent ids",
      node: nodeDescription({}, { receipts: { retained: 899, limit: 1_000 } }),
      level: "ok",
      finding: "online",
    },
    {
      name: "has 900 spent ids",
      node: nodeDescription({}, { receipts: { retained: 900, limit: 1_000 } }),
      level: "warn",
      finding: "100 process ids left on",
    },
    {
      name: "runs another version",
      node: nodeDescription({}, { lemonVersion: "2025.1.0" }),
      level: "warn",
      finding: "2025.1.0",
    },
  ];
  for (const { name, node, level, finding } of nodes) {
    it(`answers ${level} for a node that ${name}`, async () => {
      machine.peer.on("node.describe", () => node);
      const found = (await machine.examine()).find("node worker-1");
      expect(found?.level).to.equal(level);
      expect(found?.finding).to.include(finding);
    });
  }

  it("fails a controller that can not reach its hub, and blames no node for that", async () => {
    machine.peer.missing = ["hub", "documents"];
    machine.peer.on("node.describe", () => nodeDescription({ status: "unknown" }));
    const { exitCode, find } = await machine.examine();
    expect(exitCode).to.equal(1);
    expect(find("controller")).to.include({ level: "ok" });
    expect(find("controller's hub")?.finding).to.include("can not reach its hub");
    expect(find("controller's hub")?.mend).to.include("nats-server");
    expect(find("controller's documents")).to.include({ level: "fail" });
    expect(find("node worker-1")).to.include({ level: "warn" });
    expect(find("node worker-1")?.finding).to.include("says nothing about the node");
    expect(find("node worker-1")?.mend).not.to.include("node join");

    // Just before it reads unknown it has only fallen silent.
    machine.peer.on("node.describe", () => nodeDescription({ status: "offline" }));
    const silent = (await machine.examine()).find("node worker-1");
    expect(silent?.finding).to.include("says nothing about the node");
    expect(silent?.mend).not.to.include("node join");
  });

  it("does not tell anybody to join a node that is a part of its controller", async () => {
    machine.peer.on("node.describe", () => nodeDescription({ status: "offline" }, { local: true }));
    expect((await machine.examine()).find("node worker-1")?.mend).to.include("that one's log");
  });

  it("warns of a controller that is ending, and fails one that misses what this version does not know", async () => {
    machine.peer.missing = ["stopping"];
    const ending = await machine.examine();
    expect(ending.exitCode).to.equal(0);
    expect(ending.find("controller's stopping")).to.include({ level: "warn" });
    machine.peer.missing = ["moon"];
    const strange = await machine.examine();
    expect(strange.exitCode).to.equal(1);
    expect(strange.find("controller's moon")).to.include({ level: "fail" });
  });

  it("says of a damaged store what mends it: another id, which a local node gets by its removal", async () => {
    const mendOf = async (local: boolean) => {
      machine.peer.on("node.describe", () =>
        nodeDescription({}, { receiptStore: "receipt_store_damaged", local }),
      );
      return (await machine.examine()).find("node worker-1")?.mend;
    };
    expect(await mendOf(false)).to.include("join it again under a new id");
    expect(await mendOf(true)).to.include("remove it with `lemon node remove`");
  });

  it("fails a node that can not be asked, and goes on with the next", async () => {
    machine.peer
      .on("node.list", () => nodeList(nodeRow(), nodeRow({ nodeId: "second", name: "worker-2" })))
      .on("node.describe", ({ nodeId }) => {
        if (nodeId !== "second") throw new LemonError("internal_error");
        return nodeDescription({ nodeId, name: "worker-2" });
      });
    const { find } = await machine.examine();
    expect(find("node worker-1")).to.include({ level: "fail" });
    expect(find("node worker-2")).to.include({ level: "ok" });
  });

  it("fails a controller that does not tell its nodes", async () => {
    machine.peer.on("node.list", () => {
      throw new LemonError("forbidden");
    });
    const { exitCode, find } = await machine.examine();
    expect(exitCode).to.equal(1);
    expect(find("controller")).to.include({ level: "ok" });
  });

  it("warns when no node is enrolled", async () => {
    machine.peer.on("node.list", () => nodeList());
    expect((await machine.examine()).find("nodes")).to.include({ level: "warn" });
  });

  for (const [offMs, level, finding] of [
    [0, "ok", /^agrees with the controller's$/],
    [-3_000, "ok", /^agrees with the controller's$/],
    [8_000, "warn", /^[789] s from the controller's$/],
    [-290_000, "warn", /^5 min from the controller's$/],
    [310_000, "fail", /^5 min from the controller's$/],
    [-3_600_000, "fail", /^60 min from the controller's$/],
  ] as const) {
    it(`answers ${level} for a controller whose clock is ${offMs / 1_000} s off`, async () => {
      const server = createHttpServer((_request, response) => {
        response.setHeader("date", new Date(Date.now() + offMs).toUTCString()).end();
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      const { exitCode, find } = await machine.examine({
        LEMON_CONTROLLER: `ws://127.0.0.1:${port}`,
      });
      await new Promise((resolve) => server.close(resolve));
      expect(find("clock")?.level).to.equal(level);
      expect(find("clock")?.finding).to.match(finding);
      if (level !== "ok") expect(find("clock")?.mend).to.include("NTP");
      // It is no control plane: that is a failure of its own.
      expect(exitCode).to.equal(1);
    });
  }
});
