import { execFileSync, spawn } from "node:child_process";
import { closeSync, existsSync, lstatSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { findAccount } from "../../../host/account-database.ts";
import { isForEverybody } from "../../../transport/nats-server/lesser-account.ts";
import type { RoleEvent, RoleProcess } from "../../support/role-process.ts";
import { RoleStage } from "../../support/role-stage.ts";
import { type Answer, type Ask, askSocket, RawPeer } from "../../support/unix-http.ts";
import { listeningSocket, receiveDatagrams } from "../../support/unix-sockets.ts";

const isRoot = process.geteuid?.() === 0;
const LAUNCHER = join(import.meta.dirname, "../../../bin/lemon.mjs");

describe("lemon host-agent", () => {
  let stage: RoleStage;
  let home: string;
  let path: string;
  beforeEach(() => {
    stage = new RoleStage();
    home = join(stage.path, "home");
    path = join(stage.path, "run", "agent.sock");
  });
  afterEach(() => stage[Symbol.asyncDispose]());

  function start(words: readonly string[] = [], environment = {}): RoleProcess {
    return stage.role(["host-agent", "--fake", "--socket", path, ...words], home, environment);
  }

  async function serving(words: readonly string[] = [], environment = {}): Promise<RoleProcess> {
    const role = start(words, environment);
    await role.said("ready");
    return role;
  }

  const ask = (method: string, target: string, request?: Ask): Promise<Answer> =>
    askSocket(path, method, target, request);

  async function refusal(role: RoleProcess): Promise<RoleEvent["error"]> {
    const said = await role.said("failed");
    expect((await role.ended()).exitCode).to.equal(1);
    return said["error"];
  }

  it("serves, goes on after kill -9 with what its jobs came to, and ends in order", async () => {
    const words = ["--state", join(stage.path, "state.json"), "--fake-job-ms", "600000"];
    const first = start(words);
    expect(await first.said("ready")).to.include({ socket: path, fake: true });
    expect(lstatSync(path).mode & 0o777).to.equal(0o660);
    expect(statSync(join(stage.path, "run")).mode & 0o777).to.equal(0o750);
    const { version } = JSON.parse(readFileSync(join(LAUNCHER, "../../package.json"), "utf8"));
    expect((await ask("GET", "/v1/system/status")).json).to.include({ agent_version: version });
    expect((await ask("GET", "/v1/openapi.json")).json).to.include({ openapi: "3.1.0" });
    const cindy = { user: "cindy", password: "canary-password" };
    await ask("POST", "/v1/auth/set-password", { body: JSON.stringify(cindy) });
    const update = { headers: { "Idempotency-Key": "update-1" } };
    const started = await ask("POST", "/v1/jobs/system-update", update);
    expect(started.status).to.equal(202);
    expect(started.json).to.include({ kind: "system-update", status: "running" });
    const { job_id: id } = Object(started.json);
    const waiting = await ask("POST", "/v1/system/reboot");
    expect(waiting.json).to.include({ status: "queued", queue_position: 1 });
    await first.end("SIGKILL");

    const second = await serving(words, { LEMON_LOG_LEVEL: "debug" });
    expect(
      (await ask("POST", "/v1/auth/verify-password", { body: JSON.stringify(cindy) })).json,
    ).to.deep.equal({ valid: true });
    const cutOff = await ask("GET", `/v1/jobs/${id}`);
    expect(cutOff.json).to.include({ status: "outcome_unknown" });
    expect(Object(cutOff.json).error).to.include({ code: "outcome-unknown" });
    const never = await ask("GET", `/v1/jobs/${Object(waiting.json).job_id}`);
    expect(never.json).to.include({ status: "cancelled" });
    expect(Object(never.json).error).to.include({ code: "agent-restarted" });
    const again = await ask("POST", "/v1/jobs/system-update", update);
    expect(again.json).to.deep.equal(cutOff.json);
    const fresh = await ask("POST", "/v1/jobs/system-update");
    const reader = new RawPeer(path);
    reader.send(`GET /v1/jobs/${Object(fresh.json).job_id}/log HTTP/1.1\r\nHost: a\r\n\r\n`);
    await reader.until("Reading package lists...");
    // The first asks it to end, the second not to wait for its jobs.
    second.child.kill("SIGTERM");
    expect(await second.end("SIGINT")).to.equal(0);
    await reader.ended();
    expect(existsSync(path)).to.equal(false);
    // Who called can be answered afterwards.
    expect(second.log).to.include(`"peer":{"pid":${process.pid},"uid":${process.getuid?.()},`);
    expect(first.log + second.log).not.to.include("canary-password");
  });

  it("has one clear line for whatever keeps it from its place", async () => {
    await serving();
    expect(await refusal(start())).to.include({ code: "identity_in_use" });
    home = join(stage.path, "another");
    expect(await refusal(start())).to.include({ code: "socket_in_use" });
    const real = stage.role(["host-agent", "--socket", path, "--group", "no-such-group"], home);
    expect(await refusal(real)).to.include({ code: "group_unusable" });
    writeFileSync(join(stage.path, "state.json"), "{}", { mode: 0o600 });
    expect(await refusal(start(["--state", join(stage.path, "state.json")]))).to.include({
      code: "home_unusable",
    });
  });

  it("takes a socket over from a service manager, and tells it that it serves, lives and ends", async () => {
    const notify = join(stage.folder("manager"), "notify");
    path = join(stage.folder("manager"), "agent.sock");
    using received = receiveDatagrams(notify);
    const fd = listeningSocket(path);
    // Only the process itself can know the pid that it is to be told.
    const child = spawn(
      "sh",
      ["-c", 'LISTEN_PID=$$ exec "$0" "$@"', process.execPath, LAUNCHER, "host-agent", "--fake"],
      {
        stdio: ["ignore", "ignore", "pipe", fd],
        env: {
          PATH: process.env["PATH"],
          HOME: stage.folder("user"),
          LEMON_NATS_SERVER: process.env["LEMON_NATS_SERVER"],
          LEMON_HOME: home,
          MALMO_AGENT_SOCK: path,
          LISTEN_FDS: "1",
          NOTIFY_SOCKET: notify,
          WATCHDOG_USEC: "600000000",
        },
      },
    );
    closeSync(fd);
    const ended = new Promise((resolve) => child.once("close", (code) => resolve(code)));
    // What connects before it is up waits in the socket.
    expect((await ask("GET", "/v1/system/status")).status).to.equal(200);
    child.kill("SIGTERM");
    expect(await ended).to.equal(0);
    const said = received.take();
    expect(said[0]).to.match(/^READY=1\nSTATUS=lemon /);
    expect(said.slice(1)).to.deep.equal(["WATCHDOG=1", "STOPPING=1"]);
    expect(existsSync(path)).to.equal(true);
  });

  if (isRoot) {
    it("runs nats-server as an account of lesser rights, on a store that root had before", async () => {
      const record = join(home, "host-agent", "server", "server.json");
      const owner = (): number =>
        statSync(`/proc/${JSON.parse(readFileSync(record, "utf8")).server.pid}`).uid;
      const asRoot = await serving();
      expect(owner()).to.equal(0);
      const key = { headers: { "Idempotency-Key": "reboot-1" } };
      const first = await ask("POST", "/v1/system/reboot", key);
      await asRoot.end("SIGTERM");
      if (!(await isForEverybody(String(process.env["LEMON_NATS_SERVER"])))) {
        const closed = start(["--store-account", "nobody"]);
        expect(Object(await refusal(closed)).message).to.include("only its owner may go");
        return;
      }
      const { uid } = findAccount("nobody") ?? { uid: -1 };
      for (let life = 0; life < 2; life += 1) {
        const lesser = await serving(["--store-account", "nobody"]);
        expect(owner()).to.equal(uid);
        const again = await ask("POST", "/v1/system/reboot", key);
        expect(Object(again.json).job_id).to.equal(Object(first.json).job_id);
        expect((await ask("POST", "/v1/system/reboot")).status).to.equal(202);
        await lesser.end(life === 0 ? "SIGKILL" : "SIGTERM");
      }
      expect(statSync(join(home, "host-agent", "server")).mode & 0o777).to.equal(0o710);
      expect(statSync(join(home, "host-agent")).mode & 0o777).to.equal(0o700);
      expect(await refusal(start(["--store-account", "no-such-account"]))).to.include({
        code: "invalid_request",
      });
    });

    it("gives its socket to its group, and demands one member of that when it is strict", async () => {
      const group = `lemon-test-${process.pid}`;
      execFileSync("groupadd", [group]);
      try {
        const empty = start(["--group", group, "--strict-group"]);
        expect(Object(await refusal(empty)).message).to.include("has no member");
        const warned = await serving(["--group", group]);
        expect(warned.log).to.include("WARNING: group");
        const gid = Number(execFileSync("getent", ["group", group]).toString().split(":")[2]);
        expect(lstatSync(path).gid).to.equal(gid);
        expect(statSync(join(stage.path, "run")).gid).to.equal(gid);
        await warned.end("SIGTERM");
        execFileSync("gpasswd", ["-a", "nobody", group], { stdio: "ignore" });
        const strict = await serving(["--group", group, "--strict-group"]);
        expect(strict.log).not.to.include("WARNING");
        await strict.end("SIGTERM");
        execFileSync("gpasswd", ["-a", "daemon", group], { stdio: "ignore" });
        const two = start(["--group", group, "--strict-group"]);
        expect(Object(await refusal(two)).message).to.include("has 2 members");
      } finally {
        execFileSync("groupdel", [group]);
      }
    });
  }
});
