/** Proves the reconciler's policy: what is brought into effect, what is drift, and what is never sent again. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect } from "chai";
import {
  ChangeRefused,
  Reconciler,
  type Report,
  type SettingKey,
  type SettingValues,
} from "../../../client/reconciler/index.ts";
import type { JobView } from "../../../protocol/host-agent/job.ts";
import { ManualTimers } from "../../support/manual-timers.ts";
import { HostInMemory } from "../../support/reconciled-host.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

describe("the reconciler", () => {
  let folder: TempFolder;
  let host: HostInMemory;
  let timers: ManualTimers;
  let reconciler: Reconciler;
  let path: string;
  let reports: Report[];

  const open = (): Reconciler =>
    new Reconciler({
      path,
      host,
      timers,
      nowMs: () => 1,
      onReport: (report) => reports.push(report),
    });

  beforeEach(() => {
    folder = tempFolder();
    path = join(folder.path, "brain.db");
    host = new HostInMemory();
    timers = new ManualTimers();
    reports = [];
    reconciler = open();
  });
  afterEach(async () => {
    await reconciler.close();
    folder[Symbol.dispose]();
  });

  async function failure(work: () => Promise<unknown>): Promise<unknown> {
    return await work().then(
      () => expect.fail("it did not fail"),
      (error: unknown) => error,
    );
  }

  describe("with a change", () => {
    const changes: readonly (readonly [SettingKey, unknown, actual: unknown])[] = [
      ["services/samba", { enabled: true }, { enabled: true, running: true }],
      ["services/ssh", { enabled: false }, { enabled: false, running: false }],
      ["discovery/photos", { published: true }, { published: true }],
      ["discovery/absent", { published: false }, { published: false }],
      ["network/primary", "wifi-2", "wifi-2"],
      [
        "network/connections/eth-1",
        { mode: "static", address: "192.0.2.7/24", gateway: "192.0.2.1", dns: ["192.0.2.53"] },
        { mode: "static", address: "192.0.2.7/24", gateway: "192.0.2.1", dns: ["192.0.2.53"] },
      ],
      ["users/alex", { role: "admin" }, { role: "admin" }],
      ["time/zone", "Europe/Stockholm", "Europe/Stockholm"],
      ["host/hostname", "attic", "attic"],
    ];
    for (const [key, value, actual] of changes) {
      it(`of ${key} brings it into effect, verifies and closes it`, async () => {
        const report = await reconciler.set(key, value as SettingValues[SettingKey] as never);
        expect(report).to.deep.include({ key, actual, state: "in_effect", failure: null });
        const asked = host.changes.length;
        expect((await reconciler.pass()).settings[0]?.state).to.equal("in_effect");
        expect(host.changes).to.have.length(asked);
      });
    }

    it("that is no setting, or no value of one, refuses before anything is recorded", async () => {
      for (const key of [
        "time",
        "time/zone/x",
        "services",
        "services/",
        "users//",
        "",
        "__proto__",
      ]) {
        expect(
          await failure(() => reconciler.set(key as SettingKey, "x" as never)),
          key,
        ).to.be.an.instanceOf(TypeError);
      }
      expect(
        await failure(() => reconciler.set("users/alex", { role: "root" } as never)),
      ).to.be.an.instanceOf(TypeError);
      expect((await reconciler.pass()).settings).to.deep.equal([]);
      expect(host.changes).to.deep.equal([]);
    });

    it("takes a name that every object has for a name", async () => {
      const report = await reconciler.set("services/constructor", { enabled: true });
      expect(report.state).to.equal("in_effect");
      expect((await reconciler.set("users/toString", { role: "member" })).actual).to.deep.equal({
        role: "member",
      });
    });

    for (const mishap of ["lost_before", "lost_after", "ignored"] as const) {
      it(`whose answer says nothing certain (${mishap}) stays open, and the next pass settles it`, async () => {
        host.mishap = mishap;
        const report = await reconciler.set("time/zone", "Europe/Stockholm");
        expect(report).to.include({ state: "pending", attempts: 1 });
        expect(report.failure).to.equal(mishap === "ignored" ? "not_in_effect" : "unreachable");
        expect((await reconciler.pass()).settings[0]).to.include({
          state: "in_effect",
          attempts: 0,
          failure: null,
        });
        expect(host.changes).to.have.length(mishap === "lost_after" ? 1 : 2);
      });
    }

    it("that the host refuses is told, and what was wanted before is wanted again", async () => {
      await reconciler.set("time/zone", "Europe/Stockholm");
      host.mishap = "refused";
      const refusal = await failure(() => reconciler.set("time/zone", "Nowhere/Else"));
      expect(refusal).to.be.an.instanceOf(ChangeRefused).and.include({ code: "bad-request" });
      expect((await reconciler.pass()).settings).to.deep.equal([
        {
          key: "time/zone",
          wanted: "Europe/Stockholm",
          actual: "Europe/Stockholm",
          state: "in_effect",
          attempts: 0,
          failure: null,
        },
      ]);
      host.mishap = "refused";
      await failure(() => reconciler.set("host/hostname", "attic"));
      expect((await reconciler.pass()).settings.map(({ key }) => key)).to.deep.equal(["time/zone"]);
    });

    it("that is refused only when it is tried again is told with the pass", async () => {
      host.mishap = "lost_before";
      await reconciler.set("time/zone", "Nowhere/Else");
      host.mishap = "refused";
      const report = await reconciler.pass();
      expect(report.refused).to.deep.equal([{ key: "time/zone", code: "bad-request" }]);
      expect(report.settings).to.deep.equal([]);
    });

    it("goes back, when refused, to what was wanted before all that was open", async () => {
      await reconciler.set("time/zone", "Etc/UTC");
      host.mishap = "lost_before";
      await reconciler.set("time/zone", "Europe/Stockholm");
      host.mishap = "refused";
      await failure(() => reconciler.set("time/zone", "Nowhere/Else"));
      expect((await reconciler.pass()).settings[0]).to.include({ wanted: "Etc/UTC" });
    });

    it("waits for the change before it", async () => {
      const both = await Promise.all([
        reconciler.set("time/zone", "Europe/Stockholm"),
        reconciler.set("time/zone", "Etc/UTC"),
      ]);
      expect(both.map(({ actual }) => actual)).to.deep.equal(["Europe/Stockholm", "Etc/UTC"]);
    });
  });

  describe("with a change by somebody else", () => {
    beforeEach(async () => {
      await reconciler.set("time/zone", "Europe/Stockholm");
      host.state.time = { zone: "Asia/Tokyo" };
    });

    it("shows it and does not touch it, also after a restart", async () => {
      const drift = { wanted: "Europe/Stockholm", actual: "Asia/Tokyo", state: "drift" };
      expect((await reconciler.pass()).settings[0]).to.include(drift);
      await reconciler.close();
      reconciler = open();
      expect((await reconciler.pass()).settings[0]).to.include(drift);
      expect(host.changes).to.have.length(1);
    });

    it("undoes it when told to", async () => {
      expect((await reconciler.fix("time/zone")).state).to.equal("in_effect");
      expect(host.state.time.zone).to.equal("Europe/Stockholm");
    });

    it("wants it from now on when told to, and asks nothing of the host for it", async () => {
      expect(await reconciler.adopt("time/zone")).to.include({
        wanted: "Asia/Tokyo",
        state: "in_effect",
      });
      expect(host.changes).to.have.length(1);
    });

    it("adopts an address with all its parts", async () => {
      await reconciler.set("network/connections/eth-1", { mode: "dhcp" });
      const fixed = { address: "192.0.2.8/24", gateway: "", dns: ["192.0.2.53"] };
      host.state.network.connections["eth-1"] = {
        kind: "ethernet",
        ipv4: { mode: "static", ...fixed },
      };
      expect(await reconciler.adopt("network/connections/eth-1")).to.include({
        state: "in_effect",
      });
      host.state.network.connections["eth-1"].ipv4.dns = [];
      expect((await reconciler.pass()).settings[0]?.state).to.equal("drift");
    });

    it("can not adopt what is not there, nor what nobody asked to keep", async () => {
      await reconciler.set("services/samba", { enabled: true });
      delete host.state.services["samba"];
      expect((await reconciler.pass()).settings[0]).to.include({ state: "drift", actual: null });
      for (const key of ["services/samba", "host/hostname"] as const) {
        expect(await failure(() => reconciler.adopt(key))).to.be.an.instanceOf(TypeError);
      }
      expect(await failure(() => reconciler.fix("host/hostname"))).to.be.an.instanceOf(TypeError);
    });

    it("forgets it when told to", async () => {
      await reconciler.forget("time/zone");
      expect((await reconciler.pass()).settings).to.deep.equal([]);
      expect(host.state.time.zone).to.equal("Asia/Tokyo");
    });
  });

  describe("whose host can not be reached", () => {
    it("concludes nothing, and settles what is open when it is back", async () => {
      await reconciler.set("host/hostname", "attic");
      host.reachable = false;
      expect(await reconciler.set("time/zone", "Europe/Stockholm")).to.include({
        state: "pending",
        failure: "ECONNREFUSED",
      });
      const report = await reconciler.pass();
      expect(report.reachable).to.equal(false);
      expect(report.settings.map(({ key, state }) => [key, state])).to.deep.equal([
        ["host/hostname", "unknown"],
        ["time/zone", "pending"],
      ]);
      host.reachable = true;
      expect((await reconciler.pass()).settings.map(({ state }) => state)).to.deep.equal([
        "in_effect",
        "in_effect",
      ]);
    });
  });

  describe("once started", () => {
    it("makes a pass at once and every 60 s, and none after its end", async () => {
      await reconciler.start();
      expect(reports).to.have.length(1);
      for (const passes of [2, 3]) {
        expect(await timers.armed((delayMs) => delayMs > 0)).to.equal(60_000);
        timers.advance(59_999);
        expect(reports).to.have.length(passes - 1);
        timers.advance(1);
        await timers.armed((delayMs) => delayMs > 0);
        expect(reports).to.have.length(passes);
      }
      await reconciler.close();
      expect(timers.delaysMs).to.deep.equal([]);
      expect(await failure(() => reconciler.pass())).to.be.an.instanceOf(Error);
    });

    it("tells whoever listens of every change", async () => {
      await reconciler.set("host/hostname", "attic");
      expect(reports.at(-1)?.settings[0]).to.include({ key: "host/hostname", state: "in_effect" });
    });
  });

  describe("with a job", () => {
    it("asks for it under a key of its own, and follows it to its end without asking again", async () => {
      const { job_id } = await reconciler.begin("enrollDrive", {
        device: "/dev/sdb",
        admin_user: "alex",
        admin_password: "canary-pass",
      });
      expect(host.keys).to.have.length(1);
      expect(host.keys[0]).to.match(/^reconciler:[0-9a-f-]{36}$/);
      expect((await reconciler.pass()).operations[0]?.state).to.equal("running");
      const stalled: JobView = { job_id, kind: "enroll-drive", status: "stalled" };
      host.jobs.set(job_id, stalled);
      expect((await reconciler.pass()).operations[0]?.state).to.equal("stalled");
      // It was still being stopped, and finished after all.
      const finished_at = "2026-12-01T00:00:00Z";
      host.jobs.set(job_id, { ...stalled, status: "completed", finished_at });
      expect((await reconciler.pass()).operations[0]?.state).to.equal("completed");
      // The host may forget it; its end is known.
      host.jobs.clear();
      expect((await reconciler.pass()).operations[0]?.state).to.equal("completed");
      expect(host.changes).to.have.length(1);
    });

    it("keeps nothing of its request", async () => {
      await reconciler.begin("ejectDrive", { admin_user: "alex", admin_password: "canary-pass" });
      await reconciler.close();
      for (const file of readdirSync(folder.path)) {
        expect(readFileSync(join(folder.path, file)).includes("canary-pass"), file).to.equal(false);
      }
    });

    it("that was refused is over; one whose answer was lost is interrupted, for good", async () => {
      host.mishap = "refused";
      await failure(() => reconciler.begin("reboot", {}));
      expect((await reconciler.pass()).operations).to.deep.equal([]);
      host.mishap = "lost_after";
      await failure(() => reconciler.begin("shutdown", {}));
      expect((await reconciler.pass()).operations[0]?.state).to.equal("interrupted");
      expect((await reconciler.pass()).operations[0]?.state).to.equal("interrupted");
      expect(host.changes).to.have.length(2);
    });

    it("that the host does not know any more is interrupted; while it can not be asked, nothing is known", async () => {
      await reconciler.begin("systemUpdate", {});
      host.reachable = false;
      expect((await reconciler.pass()).operations[0]?.state).to.equal("unknown");
      host.reachable = true;
      host.jobs.clear();
      expect((await reconciler.pass()).operations[0]?.state).to.equal("interrupted");
    });
  });

  it("keeps a private database, and refuses one that a newer version wrote", async () => {
    expect(statSync(path).mode & 0o777).to.equal(0o600);
    await reconciler.close();
    const database = new DatabaseSync(path);
    database.exec("PRAGMA user_version = 2");
    database.close();
    expect(open).to.throw(/newer version/);
  });
});
