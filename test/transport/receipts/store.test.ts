import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { expect } from "chai";
import { hashOf, keyOf } from "../../../transport/receipts/record.ts";
import { decode } from "../../../transport/rpc/codec.ts";
import { type Bench, bench, done, running, type WorkStore, work } from "../../support/receipts.ts";
import { refusalOf } from "../../support/refusal.ts";

const intent = Buffer.from("do it");
const another = Buffer.from("do something else");

describe("a receipt store", () => {
  let ground: Bench;
  let store: WorkStore;

  before(async () => {
    ground = await bench();
  });
  beforeEach(async () => {
    store = await ground.open();
  });
  afterEach(() => ground.clear());
  after(() => ground[Symbol.asyncDispose]());

  it("admits an id once and remembers it", async () => {
    const admission = await store.admit("run:1", intent, running);
    expect(admission.outcome).to.equal("admitted");
    expect(admission.receipt.state).to.deep.equal(running);
    expect(admission.receipt.owner.generation).to.equal(1);
    expect(await store.read("run:1")).to.deep.equal(admission.receipt);
  });

  it("gives the existing receipt to whoever asks again with the same intent", async () => {
    const first = await store.admit("run:1", intent, running);
    const again = await store.admit("run:1", intent, running);
    expect(again).to.deep.equal({ outcome: "existing", receipt: first.receipt, sameIntent: true });
  });

  it("tells an id that was spent on another intent", async () => {
    await store.admit("run:1", intent, running);
    const other = await store.admit("run:1", another, running);
    expect(other).to.include({ outcome: "existing", sameIntent: false });
  });

  it("admits exactly one of 64 who ask for the same id at once", async () => {
    const admissions = await Promise.all(
      Array.from({ length: 64 }, () => store.admit("run:1", intent, running)),
    );
    const admitted = admissions.filter(({ outcome }) => outcome === "admitted");
    expect(admitted).to.have.length(1);
    for (const { receipt } of admissions) expect(receipt).to.deep.equal(admitted[0]?.receipt);
  });

  it("keeps every one of 1,200 ids that are admitted at once, over an opening", async () => {
    const ids = Array.from({ length: 1_200 }, (_, n) => `run:${n}`);
    await Promise.all(ids.map((id) => store.admit(id, intent, running)));
    const { lastWitnessedSequence } = store;
    await store.close();
    store = await ground.open();
    expect(store.retained).to.equal(ids.length);
    expect([...(await store.ids())].sort()).to.deep.equal(ids.sort());
    expect(store.lastWitnessedSequence).to.equal(lastWitnessedSequence);
  });

  it("never takes a record for its own admission that somebody else wrote", async () => {
    // The bytes of a real record, put under the id by another hand just before.
    const copied = await store.admit("run:1", intent, running);
    const manager = await jetstreamManager(ground.connection);
    const record = await manager.streams.getMessage("KV_work", { seq: copied.receipt.revision });
    await jetstream(ground.connection).publish(`$KV.work.${keyOf("run:2")}`, record?.data);
    const refusal = await refusalOf(() => store.admit("run:2", intent, running));
    expect(refusal.code).to.equal("receipt_store_damaged");
  });

  it("answers null only for an id that nothing is known of", async () => {
    await store.admit("run:1", intent, running);
    expect(await store.read("run:2")).to.equal(null);
    expect(await store.read("run")).to.equal(null);
    expect(await store.read("RUN:1")).to.equal(null);
  });

  it("keeps ids apart whatever characters they hold", async () => {
    const ids = ["a", "A", "a:b", "a b", "a.b", "*", ">", "ä", "a\u0308", "漢", "a/b", "-_", "🦎"];
    for (const id of ids)
      expect((await store.admit(id, intent, running)).outcome).to.equal("admitted");
    for (const id of ids) expect((await store.read(id))?.id).to.equal(id);
    expect(store.retained).to.equal(ids.length);
  });

  it("takes ids of 1 to 256 bytes", async () => {
    for (const id of ["x", "x".repeat(256), "ä".repeat(128)]) {
      expect((await store.admit(id, intent, running)).outcome).to.equal("admitted");
    }
    for (const id of ["", "x".repeat(257), `${"ä".repeat(128)}x`, "\ud800"]) {
      expect((await refusalOf(() => store.admit(id, intent, running))).code).to.equal(
        "invalid_params",
      );
      expect((await refusalOf(() => store.read(id))).code).to.equal("invalid_params");
    }
  });

  it("advances a receipt and shows the new state", async () => {
    const { receipt } = await store.admit("run:1", intent, running);
    const ended = await store.advance(receipt, done);
    expect(ended).to.deep.equal({ ...receipt, state: done, revision: ended.revision });
    expect(ended.revision).to.be.greaterThan(receipt.revision);
    expect(await store.read("run:1")).to.deep.equal(ended);
  });

  it("gives whoever lost a race the receipt that won", async () => {
    const { receipt } = await store.admit("run:1", intent, running);
    const unknown = { phase: "unknown", step: 5 } as const;
    const [first, second] = await Promise.all([
      store.advance(receipt, done),
      store.advance(receipt, unknown),
    ]);
    expect(first.state).to.deep.equal(done);
    expect(second).to.deep.equal(first);
  });

  it("refuses a state that does not move forward", async () => {
    const { receipt } = await store.admit("run:1", intent, { phase: "running", step: 1 });
    for (const step of [0, 1]) {
      const back = { phase: "running", step } as const;
      const refusal = await refusalOf(() => store.advance(receipt, back));
      expect(refusal).to.include({ code: "internal_error", mutationMayHaveApplied: false });
    }
    expect(await store.read("run:1")).to.deep.equal(receipt);
  });

  it("keeps the owner and the intent over advances", async () => {
    const { receipt } = await store.admit("run:1", intent, running);
    await store.advance(receipt, done);
    const same = await store.admit("run:1", intent, running);
    const other = await store.admit("run:1", another, running);
    expect(same).to.include({ outcome: "existing", sameIntent: true });
    expect(other).to.include({ outcome: "existing", sameIntent: false });
    expect(same.receipt.owner).to.deep.equal(receipt.owner);
  });

  it("takes 62 changes behind an admission, then an end, then nothing", async () => {
    let { receipt } = await store.admit("run:1", intent, running);
    for (let step = 1; step <= 62; step += 1) {
      receipt = await store.advance(receipt, { phase: "running", step });
    }
    const further = { phase: "running", step: 63 } as const;
    const refusal = await refusalOf(() => store.advance(receipt, further));
    expect(refusal.code).to.equal("receipt_revision_limit");
    expect(await store.read("run:1")).to.deep.equal(receipt);
    const ended = await store.advance(receipt, done);
    expect(ended.state).to.deep.equal(done);
    const beyond = { phase: "unknown", step: 1 } as const;
    const last = await refusalOf(() => store.advance(ended, beyond));
    expect(last.code).to.equal("receipt_revision_limit");
    expect(await store.read("run:1")).to.deep.equal(ended);
  });

  it("still knows an id with all 64 revisions after it was opened anew", async () => {
    let { receipt } = await store.admit("run:1", intent, running);
    for (let step = 1; step <= 62; step += 1) {
      receipt = await store.advance(receipt, { phase: "running", step });
    }
    await store.close();
    store = await ground.open({ generation: 2 });
    expect((await store.read("run:1"))?.state).to.deep.equal({ phase: "unknown", step: 62 });
  });

  it("counts every id ever admitted, admissions under way included", async () => {
    expect(store.retained).to.equal(0);
    const first = store.admit("run:1", intent, running);
    const same = store.admit("run:1", intent, running);
    const second = store.admit("run:2", intent, running);
    expect(store.retained).to.equal(2);
    await Promise.all([first, same, second]);
    expect(store.retained).to.equal(2);
    await store.admit("run:1", another, running);
    expect(store.retained).to.equal(2);
  });

  it("shows nothing of id or intent to whoever reads its own files", async () => {
    const secret = Buffer.from("a very secret argument");
    await store.admit("run:secret", secret, running);
    const names = readdirSync(ground.files);
    expect(names).to.have.members(["identity.json", "fingerprint.key", "witness"]);
    for (const name of names) {
      expect(statSync(join(ground.files, name)).mode & 0o777).to.equal(0o600);
      const bytes = readFileSync(join(ground.files, name));
      expect(bytes.includes(secret)).to.equal(false);
      expect(bytes.includes("run:secret")).to.equal(false);
    }
  });

  it("keeps the fingerprint of an intent apart for every id", async () => {
    const manager = await jetstreamManager(ground.connection);
    const macs: string[] = [];
    for (const id of ["run:1", "run:2"]) {
      const { receipt } = await store.admit(id, intent, running);
      const record = await manager.streams.getMessage("KV_work", { seq: receipt.revision });
      const fields = decode(record?.data ?? new Uint8Array());
      if (!Array.isArray(fields)) throw new Error("not a record");
      macs.push(Buffer.from(fields[5]).toString("hex"));
    }
    expect(new Set(macs).size).to.equal(2);
  });

  it("numbers what it witnesses, each revision once", async () => {
    const before = store.lastWitnessedSequence;
    const { receipt } = await store.admit("run:1", intent, running);
    expect(store.lastWitnessedSequence).to.equal(before + 1);
    await store.advance(receipt, done);
    await store.read("run:1");
    await store.admit("run:1", intent, running);
    expect(store.lastWitnessedSequence).to.equal(before + 2);
  });

  it("keeps two kinds of work apart on one server", async () => {
    const other = await ground.open({ kind: work("other-work") });
    await store.admit("run:1", intent, running);
    expect(await other.read("run:1")).to.equal(null);
    expect((await other.admit("run:1", intent, running)).outcome).to.equal("admitted");
    expect(other.storeId).not.to.equal(store.storeId);
  });

  it("takes nothing more once it is closed, and leaves the connections open", async () => {
    await store.admit("run:1", intent, running);
    await store.close();
    for (const attempt of [
      () => store.admit("run:2", intent, running),
      () => store.read("run:1"),
    ]) {
      expect((await refusalOf(attempt)).code).to.equal("receipt_store_unavailable");
    }
    await ground.connection.flush();
    await ground.sys.flush();
  });

  it("belongs to one process: a second one is refused while the first has it", async () => {
    expect((await refusalOf(() => ground.open())).code).to.equal("store_in_use");
    await store.close();
    await ground.open();
  });

  it("finds every id again after it was opened anew, in the same life", async () => {
    const first = await store.admit("run:1", intent, running);
    const second = await store.advance((await store.admit("run:2", intent, running)).receipt, done);
    const { lastWitnessedSequence, storeId } = store;
    await store.close();
    store = await ground.open();
    expect(store.storeId).to.equal(storeId);
    expect(store.lastWitnessedSequence).to.equal(lastWitnessedSequence);
    expect(await store.read("run:1")).to.deep.equal(first.receipt);
    expect(await store.read("run:2")).to.deep.equal(second);
    expect(store.retained).to.equal(2);
  });

  it("ends what an earlier life left unfinished, durably, before it serves", async () => {
    const first = await store.admit("run:1", intent, { phase: "running", step: 7 });
    await store.admit("run:2", intent, { phase: "queued", step: 0 });
    const ended = await store.advance((await store.admit("run:3", intent, running)).receipt, done);
    await store.close();
    store = await ground.open({ generation: 2 });
    const manager = await jetstreamManager(ground.connection);
    const record = await manager.streams.getMessage("KV_work", {
      last_by_subj: `$KV.work.${keyOf("run:1")}`,
    });
    expect(record?.seq).to.be.greaterThan(first.receipt.revision);
    const receipt = await store.read("run:1");
    expect(receipt?.state).to.deep.equal({ phase: "unknown", step: 7 });
    expect(receipt?.owner).to.deep.equal(first.receipt.owner);
    expect(receipt?.revision).to.equal(record?.seq);
    expect((await store.read("run:2"))?.state.phase).to.equal("unknown");
    expect(await store.read("run:3")).to.deep.equal(ended);
  });

  it("never lets a later life execute an id of an earlier one", async () => {
    await store.admit("run:1", intent, running);
    await store.close();
    store = await ground.open({ generation: 2 });
    const again = await store.admit("run:1", intent, running);
    expect(again).to.include({ outcome: "existing", sameIntent: true });
    expect(again.receipt.state.phase).to.equal("unknown");
  });
});

describe("the names of a receipt", () => {
  it("tell two ids apart that differ in a single byte", () => {
    expect(keyOf("a")).not.to.equal(keyOf("b"));
    expect(hashOf("a")).not.to.equal(hashOf("b"));
    expect(keyOf("a:b*>. ")).to.match(/^[A-Za-z0-9_-]+$/);
  });
});
