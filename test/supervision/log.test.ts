/** Proves that what the kernel writes about an error holds nothing that the error says. */
import { readFileSync } from "node:fs";
import { expect } from "chai";
import fc from "fast-check";
import { LemonError } from "../../protocol/errors.ts";
import { type ActorContext, later } from "../../supervision/actor.ts";
import { codeOf, framesOf } from "../../supervision/log.ts";
import { settle } from "../support/fake-clock.ts";
import { codeOfRejection, gate, testSystem } from "../support/supervision.ts";

const SECRET = "correct horse battery staple";

class SessionLost extends Error {}

/** A failure of the operating system that names a path. */
function failureWithPath(): unknown {
  try {
    readFileSync(`/nowhere/${SECRET}`);
    return null;
  } catch (error) {
    return error;
  }
}

describe("what the kernel writes about an error", () => {
  it("names it by the table's code, else by its class, else by its type", () => {
    expect(codeOf(new LemonError("no_space"))).to.equal("no_space");
    expect(codeOf(new SessionLost(SECRET))).to.equal("SessionLost");
    expect(codeOf(new TypeError(SECRET))).to.equal("TypeError");
    expect(codeOf(failureWithPath())).to.equal("Error");
    expect(codeOf(SECRET)).to.equal("string");
    expect(codeOf({ message: SECRET })).to.equal("object");
    const named = { [SECRET]: class extends Error {} }[SECRET];
    expect(codeOf(named === undefined ? null : new named())).to.equal("Error");
  });

  it("has the frames of its stack without its message, whatever that looks like", () => {
    const messages = ["", SECRET, `${SECRET}\n    at ${SECRET} (/a/b.ts:1:1)`, "Error: x", "\n"];
    for (const message of messages) {
      for (const error of [new Error(message), new SessionLost(message), new RangeError(message)]) {
        const frames = framesOf(error);
        expect(frames.length).to.be.greaterThan(0);
        expect(frames[0]).to.match(/log\.test\.ts:\d+:\d+/);
        expect(frames.join("\n")).not.to.contain(SECRET);
      }
    }
  });

  it("has no frames at all where the message cannot be told from them", () => {
    const changed = new Error(SECRET);
    expect(changed.stack).to.contain(SECRET);
    changed.message = "another one";
    expect(framesOf(changed)).to.deep.equal([]);
    const forged = new Error("short");
    forged.stack = `${SECRET}\n    at ${SECRET} (/a/b.ts:1:1)`;
    expect(framesOf(forged)).to.deep.equal([]);
    expect(framesOf(SECRET)).to.deep.equal([]);
  });

  it("never shows a message in its frames, for any message", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom("\n", " ", "at ", ":", "x", "Error") }),
        (text) => {
          const message = `<<${text}>>`;
          for (const frame of framesOf(new Error(message))) {
            expect(frame).not.to.match(/<<|>>/);
          }
        },
      ),
    );
  });

  it("stays free of content through every way in which an actor can fail", async () => {
    const system = testSystem({ root: { intensity: { restarts: 100, windowMs: 1_000 } } });
    type Doing = { do: (work: (context: ActorContext<Doing>) => unknown) => unknown };
    const held = gate();
    const ways: ((context: ActorContext<Doing>) => unknown)[] = [
      () => {
        throw new SessionLost(SECRET);
      },
      async () => {
        throw failureWithPath();
      },
      () => later(Promise.reject(new SessionLost(SECRET))),
      ({ crash }) => crash(new Error("outer", { cause: new Error(SECRET) })),
      () => {
        throw new LemonError("no_space", { message: SECRET, cause: new Error(SECRET) });
      },
      () => {
        throw SECRET;
      },
      () => held.promise,
    ];
    for (const [index, way] of ways.entries()) {
      const ref = await system.root.startActor<Doing>({
        id: `actor-${index}`,
        kind: "failing",
        restart: "permanent",
        start: (context) => ({
          handlers: { do: (work) => work(context) },
          stop: () => Promise.reject(new SessionLost(SECRET)),
        }),
      });
      ref.watch(() => {
        throw new SessionLost(SECRET);
      });
      ref.tell("do", way);
      const asked = codeOfRejection(ref.ask("do", way, { deadlineMs: 1 }));
      await system.clock.advance(1);
      await asked;
    }
    await codeOfRejection(
      system.root.startActor<Doing>({
        id: "stillborn",
        kind: "failing",
        restart: "permanent",
        start: () => Promise.reject(new SessionLost(SECRET)),
      }),
    );
    const ended = system.shutdown();
    await system.clock.advance(60_000);
    await ended;
    held.reject(new SessionLost(SECRET));
    await settle();
    expect(system.lines.length).to.be.greaterThan(20);
    expect(system.text()).to.contain("SessionLost").and.to.contain("log.test.ts");
    for (const word of SECRET.split(" ")) expect(system.text()).not.to.contain(word);
  });

  it("leaves the refusal of a first start to whoever asked for it, and warns of a defect", async () => {
    for (const [error, loud] of [
      [new LemonError("no_space"), []],
      [new SessionLost(SECRET), ["actor crashed"]],
    ] as const) {
      const system = testSystem();
      const start = system.root.startActor({
        id: "stillborn",
        kind: "failing",
        restart: "permanent",
        start: () => Promise.reject(error),
      });
      await codeOfRejection(start);
      await system.shutdown();
      const lines = system.lines.filter((line) => Number(line["level"]) >= 30);
      expect(lines.map((line) => line["msg"])).to.deep.equal(loud);
    }
  });

  it("is one line a life at debug, and none for an orderly life at info", async () => {
    const system = testSystem();
    const ref = await system.root.startActor<{ ping: (p: null) => void }>({
      id: "a",
      kind: "quiet",
      restart: "temporary",
      start: () => ({ handlers: { ping: () => {} } }),
    });
    await ref.ask("ping", null, { deadlineMs: 10 });
    await system.shutdown();
    const loud = system.lines.filter((line) => Number(line["level"]) >= 30);
    expect(loud).to.deep.equal([]);
    const ofActor = system.lines.filter((line) => line["actor"] === "/test/a");
    expect(ofActor.map((line) => line["msg"])).to.deep.equal(["actor started", "actor ended"]);
  });
});
