import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Readiness } from "../../../cli/roles/readiness.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { MemoryDocuments } from "../../support/memory-documents.ts";
import { refusalOf } from "../../support/refusal.ts";
import {
  managedToken,
  RoleStage,
  recordedServer,
  shellRun,
  until,
} from "../../support/role-stage.ts";

describe("whether a controller can do its work", () => {
  const settled = () => new Promise((resolve) => setImmediate(resolve));

  function stage() {
    const clock = new FakeClock();
    const inner = new MemoryDocuments<string>(String);
    const ending = new AbortController();
    let reads = 0;
    const counted = {
      get: (key: string) => {
        reads += 1;
        return inner.get(key);
      },
      list: () => inner.list(),
      create: (key: string, value: string) => inner.create(key, value),
      update: inner.update.bind(inner),
      delete: inner.delete.bind(inner),
    };
    const readiness = new Readiness({ documents: counted, clock, asked: ending.signal });
    return { clock, inner, ending, readiness, reads: () => reads };
  }

  it("is so from the beginning, and asks nothing to know it", async () => {
    const { readiness, clock, reads } = stage();
    await clock.advance(60_000);
    expect(readiness.missing()).to.deep.equal([]);
    expect(reads()).to.equal(0);
  });

  it("is not while the hub is away, nor until the documents have been read after it", async () => {
    const { readiness, inner, clock } = stage();
    readiness.hub(false);
    expect(readiness.missing()).to.deep.equal(["hub"]);
    inner.deaf = true;
    readiness.hub(true);
    expect(readiness.missing()).to.deep.equal(["documents"]);
    await clock.advance(5_000);
    expect(readiness.missing()).to.deep.equal(["documents"]);
    inner.deaf = false;
    await clock.advance(999);
    expect(readiness.missing()).to.deep.equal(["documents"]);
    await clock.advance(1);
    expect(readiness.missing()).to.deep.equal([]);
  });

  it("is not from the first operation without an answer, until one has it: a probe's, or anybody's", async () => {
    const { readiness, inner, clock, reads } = stage();
    inner.deaf = true;
    await refusalOf(() => readiness.documents.list());
    expect(readiness.missing()).to.deep.equal(["documents"]);
    await settled();
    expect(reads()).to.equal(1);
    inner.deaf = false;
    expect(await readiness.documents.get("a")).to.equal(null);
    expect(readiness.missing()).to.deep.equal([]);
    const read = reads();
    await clock.advance(60_000);
    expect(reads()).to.equal(read);
  });

  it("is so also when an operation is answered by a refusal", async () => {
    const { readiness } = stage();
    await readiness.documents.create("a", "1");
    expect((await refusalOf(() => readiness.documents.create("a", "2"))).code).to.equal(
      "revision_conflict",
    );
    expect(readiness.missing()).to.deep.equal([]);
  });

  it("is not once it was asked to end, and then nothing is tried any more", async () => {
    const { readiness, inner, ending, clock, reads } = stage();
    inner.deaf = true;
    readiness.hub(true);
    await settled();
    ending.abort();
    const before = reads();
    await clock.advance(60_000);
    expect(reads()).to.equal(before);
    expect(readiness.missing()).to.deep.equal(["documents", "stopping"]);
  });

  it("is told by /readyz of a real one: when its hub is killed, when it is back, when it ends", async () => {
    await using place = new RoleStage();
    const up = await place.controller("up");
    await up.role.said("probe");
    const ready = async () => {
      const response = await fetch(`http://127.0.0.1:${up.port}/readyz`);
      const { ok, error } = Object(await response.json());
      return { status: response.status, ok, missing: error?.details.missing };
    };
    expect(await ready()).to.deep.equal({ status: 200, ok: true, missing: undefined });
    const server = recordedServer(join(up.home, "controller", "hub"));
    process.kill(server.pid, "SIGKILL");
    const unready = await until("a hub that is missed", async () => {
      const seen = await ready();
      return seen.status === 503 ? seen : undefined;
    });
    expect(unready.missing).to.be.an("array").that.is.not.empty;
    expect(["hub", "documents"]).to.include.members(unready.missing);
    expect((await fetch(`http://127.0.0.1:${up.port}/healthz`)).status).to.equal(200);
    await until("a hub that is back", async () =>
      (await ready()).status === 200 ? true : undefined,
    );
    // What still runs holds the end up.
    const client = await place.client(up.url, managedToken(up));
    const marker = join(place.folder("user"), "started");
    const nodeId = String(up.ready["nodeId"]);
    const work = (processId: string, script: string) =>
      client.call("node.process.run", shellRun(nodeId, processId, script));
    let attempt = 0;
    // Its receipts' server was killed with the hub: until they are verified it takes nothing.
    await until("a node that takes work again", async () => {
      attempt += 1;
      return await work(`again:${attempt}`, "true").catch(() => undefined);
    });
    void work("holds:1", `echo > ${marker}; sleep 60`).catch(() => {});
    await until("a run that has begun", () => {
      try {
        return readFileSync(marker, "utf8");
      } catch {
        return undefined;
      }
    });
    up.role.child.kill("SIGTERM");
    const stopping = await until("that it stops", async () => {
      const seen = await ready();
      return seen.status === 503 ? seen : undefined;
    });
    expect(stopping.missing).to.deep.equal(["stopping"]);
    expect(await up.role.end("SIGTERM")).to.equal(0);
  });
});
