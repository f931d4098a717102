/** Proves that answers with many bytes come whole or not at all, in as many messages as they are. */
import { randomBytes } from "node:crypto";
import type { NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import fc from "fast-check";
import { systemClock } from "../../../host/clock.ts";
import type { NodeKey } from "../../../protocol/ids.ts";
import { createRpcCaller } from "../../../transport/rpc/caller.ts";
import { encode } from "../../../transport/rpc/codec.ts";
import { AnswerReader, answerMessages, encodeFailed } from "../../../transport/rpc/envelope.ts";
import { serveRpc } from "../../../transport/rpc/server.ts";
import { callSubject } from "../../../transport/rpc/subjects.ts";
import { logLines } from "../../support/log-lines.ts";
import type { TestServer } from "../../support/nats.ts";
import { plainServer } from "../../support/plain-nats.ts";
import { refusalOf } from "../../support/refusal.ts";

const MIB = 1_048_576;
const MAX_PAYLOAD = 8 * MIB;
const WHOLE_BYTES = 65_536;

function read(messages: readonly Uint8Array[], maxBytes = MAX_PAYLOAD): unknown[] {
  const reader = new AnswerReader(true);
  return messages.map((message) => reader.take(message, maxBytes));
}

describe("an answer with many bytes", () => {
  it("is one message while they are few, and many beyond", () => {
    const messages = (bytes: number) => answerMessages({ bytes: Buffer.alloc(bytes) }, MAX_PAYLOAD);
    expect(messages(WHOLE_BYTES)).to.have.length(1);
    expect(messages(WHOLE_BYTES + 1)).to.have.length(4);
    expect(messages(MIB)).to.have.length(33);
  });

  it("reads as it was given, when the last of its messages has come", () => {
    const sizes = fc.integer({ min: 0, max: 200_000 });
    fc.assert(
      fc.property(sizes, fc.string(), (size, path) => {
        const given = { path, few: randomBytes(9), bytes: randomBytes(size), eof: true };
        const outcomes = read(answerMessages(given, MAX_PAYLOAD));
        expect(outcomes.slice(0, -1)).to.deep.equal(outcomes.slice(0, -1).fill(null));
        expect(outcomes.at(-1)).to.deep.equal([given]);
      }),
      { numRuns: 50 },
    );
  });

  it("is response_too_large when all its messages together are more than the link takes of one", async () => {
    const maxBytes = 100_000;
    const answer = (bytes: number) =>
      read(answerMessages({ bytes: Buffer.alloc(bytes) }, maxBytes));
    const [outcome] = answer(maxBytes - 200).at(-1) as [{ bytes: Buffer }];
    expect(outcome.bytes).to.have.length(maxBytes - 200);
    expect(await refusalOf(() => answer(maxBytes))).to.include({ code: "response_too_large" });
  });

  it("is none when anything about its messages is not as announced", async () => {
    const [head, first, ...rest] = answerMessages({ bytes: Buffer.alloc(100_000) }, MAX_PAYLOAD);
    if (head === undefined || first === undefined) throw new Error("no messages");
    const forged: Record<string, readonly Uint8Array[]> = {
      "a part before its head": [first],
      "a second head": [head, head],
      "a part of another size": [head, encode([3, Buffer.alloc(100_001)])],
      "an empty part": [head, encode([3, Buffer.alloc(0)])],
      "a part that is no bytes": [head, encode([3, "text"])],
      "a result in the middle": [head, first, encode([0, null])],
      "no length": [encode([2, { bytes: null }, "bytes", 0])],
      "a length beyond every bound": [encode([2, { bytes: null }, "bytes", MAX_PAYLOAD + 1])],
      "a length that is no number": [encode([2, { bytes: null }, "bytes", "9"])],
      "a field that is not there": [encode([2, {}, "bytes", 9])],
      "a field of something else": [encode([2, { bytes: 1 }, "bytes", 9])],
      "a result that is no record": [encode([2, [null], "0", 9])],
    };
    for (const [what, messages] of Object.entries(forged)) {
      const refused = await refusalOf(async () => read(messages));
      expect(refused, what).to.include({
        code: "invalid_remote_payload",
        mutationMayHaveApplied: true,
      });
    }
    expect(read([head, first, ...rest]).at(-1)).to.not.equal(null);
  });

  it("may end with a failure in its middle", async () => {
    const [head = new Uint8Array(0)] = answerMessages(
      { bytes: Buffer.alloc(100_000) },
      MAX_PAYLOAD,
    );
    const refused = await refusalOf(async () => read([head, encodeFailed(new Error("x"))]));
    expect(refused).to.include({ code: "internal_error" });
  });
});

describe("a call whose answer has many bytes", () => {
  let nats: TestServer;
  let controller: NatsConnection;
  let worker: NatsConnection;
  const node = "N1" as NodeKey;
  const options = { generation: 1, deadlineMs: 30_000, mutation: false };

  before(async () => {
    nats = await plainServer(MAX_PAYLOAD);
    controller = await nats.connect({});
    worker = await nats.connect({});
  });
  after(() => nats[Symbol.asyncDispose]());

  it("gets its own, whole, however many are answered at once, and held back meanwhile", async () => {
    const chunks = Array.from({ length: 8 }, (_, at) => randomBytes(MIB - at));
    const { log } = logLines();
    const handlers = { chunk: (at: unknown) => ({ at, bytes: chunks[Number(at)] }) };
    const clock = systemClock;
    const server = serveRpc({
      connection: worker,
      nodeKey: node,
      generation: 1,
      handlers,
      clock,
      log,
    });
    await worker.flush();
    const caller = createRpcCaller({ connection: controller, clock });
    const call = async (at: number) =>
      await caller.call(node, { ...options, method: "chunk", params: at });
    const compare = (answers: readonly unknown[]) => {
      for (const [at, answer] of answers.entries()) {
        expect(Object(answer).at).to.equal(at);
        expect(Buffer.compare(Object(answer).bytes, chunks[at] ?? Buffer.alloc(0))).to.equal(0);
      }
    };
    compare(await Promise.all(chunks.map((_, at) => call(at))));

    server.hold();
    const held = Promise.all(chunks.map((_, at) => call(at)));
    // What runs here is what was taken; all of it has been when the server answers nothing new.
    await controller.flush();
    await worker.flush();
    server.resume();
    compare(await held);
    expect(caller.snapshot()).to.deep.equal({ inFlight: 0, waiting: 0, bytesOnLinks: 0 });
    caller.stop();
    await server.stop();
  });

  it("ends with its deadline when a part of it is lost, and nothing of it is left", async () => {
    const subscription = worker.subscribe(callSubject(node), {
      callback: (_error, message) => {
        for (const part of answerMessages({ bytes: Buffer.alloc(MIB) }, MAX_PAYLOAD).slice(0, -1)) {
          message.respond(part);
        }
      },
    });
    await worker.flush();
    const caller = createRpcCaller({ connection: controller, clock: systemClock });
    const refused = await refusalOf(() =>
      caller.call(node, { ...options, deadlineMs: 200, method: "chunk", params: 0 }),
    );
    expect(refused).to.include({ code: "timeout" });
    expect(caller.snapshot()).to.deep.equal({ inFlight: 0, waiting: 0, bytesOnLinks: 0 });
    caller.stop();
    subscription.unsubscribe();
  });
});
