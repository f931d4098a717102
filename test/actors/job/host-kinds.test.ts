import { expect } from "chai";
import { hostJobKinds } from "../../../actors/job/host-kinds.ts";
import type { Work } from "../../../host/machine/work.ts";
import { type JobRoom, jobRoom, refusedWith } from "../../support/job-room.ts";

/** A host that does at once what a job asks of it, and notes it. */
class NotedHost {
  readonly done: string[] = [];
  readonly passwords: Uint8Array[] = [];
  /** What is kept up until `go`. */
  readonly held = Promise.withResolvers<void>();
  holds = false;

  readonly accounts = {
    verifyPassword: async (user: string, password: Uint8Array): Promise<boolean> => {
      this.passwords.push(password);
      return user === "andrei" && String(Buffer.from(password)) === "sesame";
    },
  };
  readonly drives = {
    enroll: (device: string, work: Work) => this.#work(`enroll ${device}`, work),
    eject: (work: Work) => this.#work("eject", work),
  };
  readonly updates = {
    run: (target: object, work: Work) => this.#work(`update ${JSON.stringify(target)}`, work),
  };
  readonly power = {
    reboot: async (): Promise<void> => void this.done.push("reboot"),
    shutdown: async (): Promise<void> => void this.done.push("shutdown"),
  };

  async #work(what: string, work: Work): Promise<{ readonly what: string }> {
    this.done.push(what);
    expect(work).not.to.have.property("request");
    if (this.holds) await this.held.promise;
    return { what };
  }
}

const ADMIN = { admin_user: "andrei", admin_password: "sesame" };

describe("The jobs of a host", () => {
  let host: NotedHost;
  let room: JobRoom;

  beforeEach(async () => {
    host = new NotedHost();
    room = await jobRoom({ kinds: () => hostJobKinds(host) });
  });
  afterEach(async () => {
    host.held.resolve();
    await room[Symbol.asyncDispose]();
  });

  it("declare what the contract says of them", () => {
    const declared = hostJobKinds(host).map((kind) => [
      kind.name,
      kind.dangerous,
      kind.resourceClass,
      kind.maxDurationMs / 60_000,
      kind.whenBusy,
    ]);
    expect(declared).to.deep.equal([
      ["system-update", false, "apt", 30, "reject"],
      ["enroll-drive", true, "disk", 10, "queue"],
      ["eject-drive", true, "disk", 10, "queue"],
      ["reboot", true, "systemd", 1, "queue"],
      ["shutdown", true, "systemd", 1, "queue"],
    ]);
  });

  it("each have a time limit above 0 and say in so many words whether they are dangerous", () => {
    const kinds = hostJobKinds(host);
    expect(kinds).to.have.length.greaterThan(0);
    for (const kind of kinds) {
      expect(kind.maxDurationMs, kind.name).to.be.greaterThan(0);
      expect(Object.hasOwn(kind, "dangerous"), kind.name).to.equal(true);
      expect(kind.dangerous, kind.name).to.be.a("boolean");
    }
  });

  it("update the whole system, or to the images that are named", async () => {
    const whole = await room.start("system-update", {});
    await room.start("system-update", { brain_image: "brain:2", extra: 1 });
    expect(host.done).to.deep.equal([
      'update {"brainImage":null,"uiImage":null}',
      'update {"brainImage":"brain:2","uiImage":null}',
    ]);
    expect((await room.jobs.get(whole)).result).to.deep.equal({ what: host.done[0] });
  });

  it("refuse a second update while one has not ended", async () => {
    host.holds = true;
    await room.start("system-update");
    expect(await refusedWith(room.jobs.start("system-update", {}, null))).to.equal("job-running");
  });

  it("enrol and eject a drive for an admin whose password is right", async () => {
    const enrolled = await room.start("enroll-drive", { device: "/dev/sdb", ...ADMIN });
    const ejected = await room.start("eject-drive", ADMIN);
    expect(host.done).to.deep.equal(["enroll /dev/sdb", "eject"]);
    expect(await room.statusOf(enrolled)).to.equal("completed");
    expect(await room.statusOf(ejected)).to.equal("completed");
  });

  it("fail with auth-failed, with nothing done, when it is wrong", async () => {
    for (const [kind, body] of [
      ["enroll-drive", { device: "/dev/sdb", ...ADMIN, admin_password: "open" }],
      ["eject-drive", { ...ADMIN, admin_user: "nobody" }],
    ] as const) {
      const view = await room.jobs.get(await room.start(kind, body));
      expect(view.status).to.equal("failed");
      expect(view.error?.code).to.equal("auth-failed");
    }
    expect(host.done).to.deep.equal([]);
  });

  it("keep no password: it is zeroed once it was verified, and in no record and no log", async () => {
    host.holds = true;
    await room.start("enroll-drive", { device: "/dev/sdb", ...ADMIN });
    expect(host.done).to.deep.equal(["enroll /dev/sdb"]);
    expect([...(host.passwords[0] ?? [1])]).to.deep.equal([0, 0, 0, 0, 0, 0]);
    const waiting = await room.start("eject-drive", ADMIN);
    await room.jobs.cancel(waiting);
    expect(
      JSON.stringify([...room.receipts.disk.values()].map(({ receipt }) => receipt)),
    ).not.to.include("sesame");
    expect(room.system.text()).not.to.include("sesame");
  });

  it("turn the machine off or start it anew when nothing else runs", async () => {
    host.holds = true;
    await room.start("system-update");
    const reboot = await room.start("reboot");
    expect(await room.statusOf(reboot)).to.equal("queued");
    host.held.resolve();
    await room.rest();
    expect(await room.statusOf(reboot)).to.equal("completed");
    await room.start("shutdown");
    expect(host.done.slice(1)).to.deep.equal(["reboot", "shutdown"]);
  });
});
