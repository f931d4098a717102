/** Proves that a brain which is killed at any moment of a change converges when it starts again. */
import { join } from "node:path";
import { expect } from "chai";
import { Reconciler } from "../../../client/reconciler/index.ts";
import { brain, type KillAt } from "../../support/brain.ts";
import { HostInMemory } from "../../support/reconciled-host.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

describe("a brain that is killed", () => {
  let folder: TempFolder;
  let host: HostInMemory;
  let path: string;

  beforeEach(() => {
    folder = tempFolder();
    host = new HostInMemory();
    path = join(folder.path, "brain.db");
  });
  afterEach(() => folder[Symbol.dispose]());

  const set = { key: "time/zone", value: "Europe/Stockholm" } as const;
  const moments: readonly (readonly [string, KillAt, changes: number])[] = [
    ["between intent and apply", { route: "setTimezone", when: "before" }, 1],
    ["between apply and its answer", { route: "setTimezone", when: "after" }, 1],
    // The first pass of the first life asks for the summary twice.
    ["between apply and verify", { route: "stateSummary", nth: 3, when: "before" }, 1],
    ["in the midst of the verification", { route: "stateSummary", nth: 3, when: "after" }, 1],
  ];
  for (const [moment, kill, changes] of moments) {
    it(`${moment} brings what it meant into effect when it starts again, and closes it`, async () => {
      expect(await brain(host, path, { set }, kill)).to.equal(null);
      const report = await brain(host, path);
      expect(report?.settings).to.deep.equal([
        {
          key: "time/zone",
          wanted: "Europe/Stockholm",
          actual: "Europe/Stockholm",
          state: "in_effect",
          attempts: 0,
          failure: null,
        },
      ]);
      expect(host.changes.map(({ route }) => route)).to.deep.equal(
        Array.from({ length: changes }, () => "setTimezone"),
      );
      // It is closed: what is changed from now on is somebody else's doing.
      host.state.time = { zone: "Etc/UTC" };
      expect((await brain(host, path))?.settings[0]?.state).to.equal("drift");
      expect(host.changes).to.have.length(changes);
    });
  }

  it("never asks again for a job whose request was cut off, and shows that it was interrupted", async () => {
    for (const when of ["before", "after"] as const) {
      await brain(host, path, { begin: true }, { route: "systemUpdate", when });
    }
    const sent = host.changes.length;
    const report = await brain(host, path);
    expect(report?.operations.map(({ kind, state, jobId }) => [kind, state, jobId])).to.deep.equal([
      ["systemUpdate", "interrupted", null],
      ["systemUpdate", "interrupted", null],
    ]);
    expect(host.changes).to.have.length(sent);
    const reconciler = new Reconciler({ path, host });
    for (const { id } of report?.operations ?? []) await reconciler.acknowledge(id);
    expect((await reconciler.pass()).operations).to.deep.equal([]);
    await reconciler.close();
    expect(host.changes).to.have.length(sent);
  });

  it("finds the job again that it had an answer for", async () => {
    await brain(host, path, { begin: true });
    const [job] = host.jobs.values();
    const report = await brain(host, path);
    expect(report?.operations.map(({ jobId, state }) => ({ jobId, state }))).to.deep.equal([
      { jobId: job?.job_id, state: "running" },
    ]);
  });

  it("is kept out while another one holds the database", async () => {
    const held = new Reconciler({ path, host });
    await held.pass();
    expect(() => new Reconciler({ path, host })).to.throw(/locked/);
    await held.close();
  });
});
