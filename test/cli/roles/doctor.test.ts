/** The doctor with real roles, and what it looks for broken for real. */
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Finding } from "../../../cli/doctor/check.ts";
import {
  managedToken,
  RoleStage,
  type StartedController,
  type StartedNode,
  until,
} from "../../support/role-stage.ts";

describe("lemon doctor beside roles that run", () => {
  let stage: RoleStage;
  let up: StartedController;
  let worker: StartedNode;
  before(async () => {
    stage = new RoleStage();
    up = await stage.controller("up");
    await up.role.said("probe");
    worker = await stage.node(up, {
      environment: { LEMON_NODE_OPERATOR_TOKEN: managedToken(up) },
    });
  });
  after(() => stage[Symbol.asyncDispose]());

  async function examine(
    at: Pick<StartedController, "home" | "port"> = up,
    environment: Readonly<Record<string, string>> = {},
  ) {
    const { exitCode, stdout } = await stage.lemon(["doctor", "--json"], {
      LEMON_HOME: at.home,
      LEMON_CONTROL_PLANE_PORT: String(at.port),
      ...environment,
    });
    const document: { readonly ok: boolean; readonly checks: readonly Finding[] } = JSON.parse(
      stdout.toString(),
    );
    expect(document.ok).to.equal(exitCode === 0);
    const find = (name: string) => document.checks.find((check) => check.name === name);
    const failed = document.checks.filter(({ level }) => level === "fail");
    return { exitCode, find, failed: failed.map(({ name }) => name) };
  }

  /** A nats-server that passes for the real one but for what `wrapped` does before. */
  function wrapper(name: string, body: string): string {
    const path = join(stage.path, name);
    const real = process.env["LEMON_NATS_SERVER"] ?? "";
    writeFileSync(path, `#!/bin/sh\n${body}\nexec "${real}" "$@"\n`, { mode: 0o755 });
    return path;
  }

  it("finds all well, and who serves what", async () => {
    const { exitCode, find, failed } = await examine();
    expect([exitCode, failed]).to.deep.equal([0, []]);
    for (const name of ["nats-server", "state folder", "clock", "controller", "node worker"])
      expect(find(name)?.level, name).to.equal("ok");
    expect(find("node local")?.finding).to.equal("online, its receipt store is proven to sync");
    expect(find("controllers here")?.finding).to.equal(up.url);
    expect(find(`port ${up.port}`)?.finding).to.equal("served by the controller that runs here");
    const pid = process.platform === "linux" ? `served by process ${up.role.child.pid}` : null;
    if (pid !== null) expect(find("node local here")?.finding).to.equal(pid);
  });

  it("fails a nats-server that is too old", async () => {
    const old = wrapper("old-server", `echo "nats-server: v2.12.6"; exit`);
    const { exitCode, find, failed } = await examine(up, { LEMON_NATS_SERVER: old });
    expect([exitCode, failed]).to.deep.equal([1, ["nats-server"]]);
    expect(find("nats-server")?.finding).to.include("nats-server 2.12.6");
    expect(find("nats-server")?.mend).to.include("2.12.7 or newer");
  });

  it("fails a node whose server does not sync", async () => {
    // The configuration is the program's own, but for the one line that durability hangs on.
    const lazy = wrapper(
      "lazy-server",
      `for one in "$@"; do case "$one" in *.conf) sed -i 's/sync_interval: "*always"*/sync_interval: "2m"/' "$one" ;; esac; done`,
    );
    const home = join(stage.path, "lazy");
    const role = await stage.controller("up", { home, environment: { LEMON_NATS_SERVER: lazy } });
    const { exitCode, find, failed } = await examine(role);
    expect([exitCode, failed]).to.deep.equal([1, ["node local"]]);
    expect(find("node local")?.finding).to.equal("admits no work: durability_unproven");
    expect(find("node local")?.mend).to.include("must sync always");
    const run = await stage.lemon(["process", "run", "local", "--", "true"], { LEMON_HOME: home });
    expect(run.exitCode).to.equal(121);
    expect(await role.role.end("SIGTERM")).to.equal(0);
  });

  it("fails rights that others have, on the folder and on the token", async () => {
    chmodSync(up.home, 0o750);
    const open = await examine();
    chmodSync(up.home, 0o700);
    expect([open.exitCode, open.failed]).to.deep.equal([1, ["state folder"]]);
    expect(open.find("state folder")?.mend).to.equal(`chmod 700 ${up.home}`);

    const token = String(up.ready["tokenFile"]);
    chmodSync(token, 0o644);
    const told = await examine();
    chmodSync(token, 0o600);
    const name = `run/control-plane-${up.port}.token`;
    expect(told.exitCode).to.equal(1);
    expect(told.failed).to.include(name);
    expect(told.find(name)?.mend).to.include("chmod 600");
  });

  it("warns of a node whose link is gone, and fails a controller that is", async () => {
    await worker.role.end("SIGKILL");
    const offline = await until("the node is offline", async () => {
      const found = await examine();
      return found.find("node worker")?.level === "warn" ? found : undefined;
    });
    expect(offline.exitCode).to.equal(0);
    expect(offline.find("node worker")?.finding).to.equal("offline");
    expect(offline.find("node worker")?.mend).to.include("lemon node join");

    await up.role.end("SIGKILL");
    const gone = await examine(up, { LEMON_CONTROLLER: up.url });
    expect([gone.exitCode, gone.failed]).to.deep.equal([1, ["controller"]]);
    expect(gone.find("controller")?.finding).to.include("ECONNREFUSED");
    expect(gone.find("controller")?.mend).to.include("start a controller");
    expect(gone.find(`run/control-plane-${up.port}.json`)?.level).to.equal("warn");
  });
});
