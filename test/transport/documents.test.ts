/** Proves what the controller's documents promise, against a real nats-server that is killed, frozen and restarted. */

import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { headers, type NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import fc from "fast-check";
import { z } from "zod";
import { type Document, type Documents, openDocuments } from "../../transport/documents.ts";
import { startNodeServer, type TestNodeServer } from "../support/nats.ts";
import { refusalOf } from "../support/refusal.ts";

const fact = z.strictObject({ name: z.string(), count: z.int() });
type Fact = z.infer<typeof fact>;
const parse = (stored: unknown): Fact => fact.parse(stored);

async function firstReconnect(connection: NatsConnection): Promise<void> {
  for await (const { type } of connection.status()) if (type === "reconnect") return;
}

describe("documents", () => {
  let server: TestNodeServer;
  let connection: NatsConnection;
  let buckets = 0;

  before(async () => {
    server = await startNodeServer();
    connection = await server.connectStore();
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
  });

  const freshBucket = (): string => {
    buckets += 1;
    return `facts-${buckets}`;
  };
  const open = (bucket = freshBucket(), timeoutMs = 5_000): Promise<Documents<Fact>> =>
    openDocuments({ connection, bucket, parse, timeoutMs });

  it("gives back what was created, updated and deleted, each under a higher revision", async () => {
    const documents = await open();
    expect(await documents.get("a")).to.equal(null);
    const created = await documents.create("a", { name: "x", count: 1 });
    expect(await documents.get("a")).to.deep.equal(created);
    const updated = await documents.update(created, { name: "y", count: 2 });
    expect(updated.revision).to.be.greaterThan(created.revision);
    expect(await documents.get("a")).to.deep.equal(updated);
    await documents.delete(updated);
    expect(await documents.get("a")).to.equal(null);
  });

  it("refuses to create a key that exists", async () => {
    const documents = await open();
    const first = await documents.create("a", { name: "x", count: 1 });
    const refusal = await refusalOf(() => documents.create("a", { name: "y", count: 2 }));
    expect(refusal.code).to.equal("revision_conflict");
    expect(await documents.get("a")).to.deep.equal(first);
  });

  it("never lets a deleted key be created again", async () => {
    const documents = await open();
    await documents.delete(await documents.create("a", { name: "x", count: 1 }));
    const refusal = await refusalOf(() => documents.create("a", { name: "y", count: 2 }));
    expect(refusal.code).to.equal("revision_conflict");
    expect(await documents.get("a")).to.equal(null);
    expect(await documents.list()).to.deep.equal([]);
  });

  it("refuses an update and a delete of a revision that is no longer the latest", async () => {
    const documents = await open();
    const first = await documents.create("a", { name: "x", count: 1 });
    const second = await documents.update(first, { name: "y", count: 2 });
    for (const stale of [
      () => documents.update(first, { name: "z", count: 3 }),
      () => documents.delete(first),
    ]) {
      const refusal = await refusalOf(stale);
      expect(refusal.code).to.equal("revision_conflict");
      expect(refusal.mutationMayHaveApplied).to.equal(false);
    }
    expect(await documents.get("a")).to.deep.equal(second);
  });

  it("lets exactly one of many racing writers win each revision", async () => {
    const documents = await open();
    const first = await documents.create("a", { name: "x", count: 0 });
    const outcomes = await Promise.allSettled(
      Array.from({ length: 32 }, (_, count) => documents.update(first, { name: "w", count })),
    );
    const won = outcomes.filter(({ status }) => status === "fulfilled");
    expect(won).to.have.length(1);
  });

  it("lists every document in the order of the keys, without those deleted", async () => {
    const documents = await open();
    const kept: Document<Fact>[] = [];
    for (let count = 0; count < 150; count += 1) {
      const key = `k-${String(count).padStart(3, "0")}`;
      const document = await documents.create(key, { name: "n", count });
      if (count % 10 === 3) await documents.delete(document);
      else kept.push(document);
    }
    expect(await documents.list()).to.deep.equal(kept);
  });

  it("behaves like a map with revisions, whatever the order of operations", async () => {
    const documents = await open();
    let round = 0;
    const step = fc.record({
      key: fc.constantFrom("a", "b", "c"),
      operation: fc.constantFrom("create", "update", "stale", "delete"),
      count: fc.nat(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
        round += 1;
        const model = new Map<string, Document<Fact> | null>();
        for (const { key: name, operation, count } of steps) {
          const key = `${round}-${name}`;
          const known = model.get(key);
          const value = { name, count };
          const stands = known ?? { key, value, revision: 1_000_000_000 };
          const attempt = {
            create: () => documents.create(key, value),
            update: () => documents.update(stands, value),
            stale: () => documents.update({ ...stands, revision: stands.revision + 1 }, value),
            delete: () => documents.delete(stands).then(() => null),
          }[operation];
          const allowed = operation === "create" ? known === undefined : Boolean(known);
          if (allowed && operation !== "stale") model.set(key, await attempt());
          else expect((await refusalOf(attempt)).code).to.equal("revision_conflict");
          expect(await documents.get(key)).to.deep.equal(model.get(key) ?? null);
        }
      }),
      { numRuns: 40 },
    );
  });

  it("holds one message for each key, on file, and outlives a kill of the server", async () => {
    const bucket = freshBucket();
    const documents = await open(bucket);
    let document = await documents.create("a", { name: "x", count: 0 });
    for (let count = 1; count <= 20; count += 1) {
      document = await documents.update(document, { name: "x", count });
    }
    const manager = await jetstreamManager(connection);
    const { config, state } = await manager.streams.info(`KV_${bucket}`);
    expect(state.messages).to.equal(1);
    expect(config.storage).to.equal("file");
    const reconnected = firstReconnect(connection);
    await server.kill();
    await server.restart();
    await reconnected;
    expect(await (await open(bucket)).list()).to.deep.equal([document]);
  });

  it("reports a store that does not answer as unavailable, never as an absence or an empty list", async () => {
    const documents = await open(undefined, 200);
    await documents.create("a", { name: "x", count: 1 });
    await server.freeze();
    try {
      for (const read of [() => documents.get("a"), () => documents.list()]) {
        const refusal = await refusalOf(read);
        expect(refusal.code).to.equal("unavailable");
        expect(refusal.retrySafe).to.equal(true);
      }
      expect((await refusalOf(() => open(freshBucket(), 200))).code).to.equal("unavailable");
    } finally {
      server.thaw();
    }
    expect(await documents.list()).to.have.length(1);
  });

  it("says of a write without an answer that it may have applied", async () => {
    const documents = await open(undefined, 200);
    const first = await documents.create("a", { name: "x", count: 1 });
    await server.freeze();
    const refusal = await refusalOf(() => documents.update(first, { name: "y", count: 2 }));
    server.thaw();
    expect(refusal.code).to.equal("timeout");
    expect(refusal.mutationMayHaveApplied).to.equal(true);
    expect(refusal.retrySafe).to.equal(false);
  });

  it("refuses at once while the connection is down, and ends at once what was under way when it went", async () => {
    const documents = await open();
    const first = await documents.create("a", { name: "x", count: 1 });
    const reconnected = firstReconnect(connection);
    await server.freeze();
    const writing = refusalOf(() => documents.update(first, { name: "y", count: 2 }));
    const reading = refusalOf(() => documents.get("a"));
    await server.kill();
    expect(await writing).to.include({ code: "link_lost", mutationMayHaveApplied: true });
    expect((await reading).code).to.equal("unavailable");
    for (const attempt of [
      () => documents.get("a"),
      () => documents.list(),
      () => documents.create("b", { name: "x", count: 1 }),
      () => documents.update(first, { name: "y", count: 2 }),
      () => documents.delete(first),
    ]) {
      const refusal = await refusalOf(attempt);
      expect(refusal).to.include({ code: "unavailable", mutationMayHaveApplied: false });
    }
    await server.restart();
    await reconnected;
    expect(await documents.get("a")).to.deep.equal(first);
    expect(await documents.get("b")).to.equal(null);
  });

  it("reads an unanswered write back and takes it for done when it stands there", async () => {
    const bucket = freshBucket();
    const documents = await open(bucket);
    const first = await documents.create("a", { name: "x", count: 1 });
    // The write arrives and its answer is lost: the connection publishes, and hears nothing.
    const deaf = await server.connectStore({ inboxPrefix: "deaf" });
    const lossy = new Proxy(deaf, {
      get(target, property) {
        const member: unknown = Reflect.get(target, property, target);
        if (property !== "request" || typeof member !== "function") {
          return typeof member === "function" ? member.bind(target) : member;
        }
        return async (subject: string, ...rest: unknown[]) => {
          const answer: unknown = await Reflect.apply(member, target, [subject, ...rest]);
          if (subject.startsWith("$KV.")) throw new Error("the answer was lost");
          return answer;
        };
      },
    });
    const unheard = await openDocuments({ connection: lossy, bucket, parse });
    const second = await unheard.update(first, { name: "y", count: 2 });
    expect(await documents.get("a")).to.deep.equal(second);
    // Somebody else's write in its place is a conflict, not a success.
    const third = await documents.update(second, { name: "z", count: 3 });
    const refusal = await refusalOf(() => unheard.update(second, { name: "mine", count: 4 }));
    expect(refusal.code).to.equal("revision_conflict");
    expect(await documents.get("a")).to.deep.equal(third);
    await unheard.delete(third);
    expect(await documents.get("a")).to.equal(null);
  });

  it("refuses a stored value that is not ours instead of leaving it out", async () => {
    const bucket = freshBucket();
    const documents = await open(bucket);
    await documents.create("a", { name: "x", count: 1 });
    for (const [key, foreign] of Object.entries({
      b: "{",
      c: '{"name":"x"}',
      d: "null",
      e: '{"name":"x","count":1,"more":true}',
    })) {
      await jetstream(connection).publish(`$KV.${bucket}.${key}`, foreign);
      expect((await refusalOf(() => documents.get(key))).code).to.equal("document_store_damaged");
    }
    expect((await refusalOf(() => documents.list())).code).to.equal("document_store_damaged");
    expect(await documents.get("a")).to.not.equal(null);
  });

  it("refuses to list beside a key that it could not have written", async () => {
    const bucket = freshBucket();
    const documents = await open(bucket);
    await documents.create("a", { name: "x", count: 1 });
    await jetstream(connection).publish(`$KV.${bucket}.a.b`, '{"name":"x","count":1}');
    expect((await refusalOf(() => documents.list())).code).to.equal("document_store_damaged");
  });

  it("takes a marker of another KV client for the absence it means", async () => {
    const bucket = freshBucket();
    const documents = await open(bucket);
    await documents.create("a", { name: "x", count: 1 });
    const marker = headers();
    marker.set("KV-Operation", "PURGE");
    await jetstream(connection).publish(`$KV.${bucket}.a`, "", { headers: marker });
    expect(await documents.get("a")).to.equal(null);
    expect(await documents.list()).to.deep.equal([]);
  });

  it("opens a bucket again as it stands, and refuses one that could not keep what is promised", async () => {
    const manager = await jetstreamManager(connection);
    const described = freshBucket();
    await open(described);
    await manager.streams.update(`KV_${described}`, { description: "an operator's words" });
    await open(described);

    const foreign = { subjects: ["$KV.X.>"], max_msgs_per_subject: 1, storage: "file" } as const;
    for (const [index, wrong] of [
      { storage: "memory" } as const,
      { max_msgs_per_subject: 5 },
      { max_age: 60_000_000_000 },
      { max_msgs: 10 },
    ].entries()) {
      const bucket = freshBucket();
      const subjects = [`$KV.${bucket}.>`];
      await manager.streams.add({ ...foreign, name: `KV_${bucket}`, subjects, ...wrong });
      const refusal = await refusalOf(() => open(bucket));
      expect(refusal.code, `case ${index}`).to.equal("document_store_damaged");
    }
  });

  it("refuses keys and buckets that would be another subject", async () => {
    const documents = await open();
    for (const key of ["", "a.b", "*", ">", "a b", "a\n", "é", "a".repeat(129)]) {
      expect((await refusalOf(() => documents.get(key))).code, key).to.equal("internal_error");
      const value = { name: "x", count: 1 };
      expect((await refusalOf(() => documents.create(key, value))).code).to.equal("internal_error");
    }
    expect(await documents.get("a".repeat(128))).to.equal(null);
    for (const bucket of ["", "A", "a.b", ">", "a".repeat(65)]) {
      expect((await refusalOf(() => open(bucket))).code, bucket).to.equal("internal_error");
    }
  });
});
