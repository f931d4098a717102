import { expect } from "chai";
import fc from "fast-check";
import { LemonError } from "../../../protocol/errors.ts";
import type { ProcessReceipt } from "../../../protocol/process.ts";
import { FakeSpawner } from "../../support/fake-spawner.ts";
import { processRoom, request } from "../../support/process-room.ts";

/** What happens, in this order; between two steps nothing is waited for but one turn of the event loop. */
type Step =
  | { readonly do: "run"; readonly id: string; readonly intent: string }
  | { readonly do: "get"; readonly id: string }
  | { readonly do: "cancel"; readonly id: string }
  /** Lets one of the operations on the store go on that are held up. */
  | { readonly do: "store"; readonly which: number }
  /** Ends one of the processes. */
  | { readonly do: "exit"; readonly which: number; readonly code: number };

const id = fc.constantFrom("a", "b");
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("run" as const),
      id,
      intent: fc.constantFrom("/x", "/y", "/missing"),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.oneof(
      fc.record({ do: fc.constant("get" as const), id }),
      fc.record({ do: fc.constant("cancel" as const), id }),
    ),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("store" as const), which: fc.nat(9) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("exit" as const), which: fc.nat(9), code: fc.nat(255) }),
  },
);

interface Told {
  readonly call: "run" | "get" | "cancel";
  readonly id: string;
  readonly intent: string | null;
  /** Number of answers that were there when it was asked. */
  readonly askedAfter: number;
  readonly answer: ProcessReceipt | LemonError;
}

const FINAL = ["completed", "cancelled", "outcome_unknown"];

describe("run, get and cancel of the same ids at once", () => {
  it("start a program at most once, lose nothing acknowledged, and tell one end", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (steps) => {
        const spawner = new FakeSpawner();
        spawner.missing.add("/missing");
        await using room = await processRoom({ spawner });
        const { receipts, service } = room;
        receipts.hold();
        const told: Told[] = [];
        const asked: Promise<void>[] = [];
        const note = (
          call: Told["call"],
          about: string,
          intent: string | null,
          answer: Promise<ProcessReceipt>,
        ): void => {
          const askedAfter = told.length;
          const keep = (answered: unknown): void => {
            if (!(answered instanceof Error)) throw new Error("no answer");
            if (!(answered instanceof LemonError)) throw answered;
            told.push({ call, id: about, intent, askedAfter, answer: answered });
          };
          asked.push(
            answer.then((receipt) => {
              told.push({ call, id: about, intent, askedAfter, answer: receipt });
            }, keep),
          );
        };

        for (const now of steps) {
          if (now.do === "run") {
            const run = request([now.intent], { processId: now.id });
            note("run", now.id, now.intent, service.run(run));
          } else if (now.do === "get")
            note("get", now.id, null, service.get({ processId: now.id }));
          else if (now.do === "cancel")
            note("cancel", now.id, null, service.cancel({ processId: now.id }));
          else if (now.do === "store") {
            const [held] = receipts.held.splice(now.which % Math.max(1, receipts.held.length), 1);
            held?.go();
          } else {
            const living = spawner.started.filter((process) => !process.over);
            living[now.which % Math.max(1, living.length)]?.end({ code: now.code, signal: null });
          }
          await new Promise((resolve) => setImmediate(resolve));
        }
        let settled = false;
        void Promise.all(asked).then(() => {
          settled = true;
        });
        while (!settled) {
          receipts.letGo();
          for (const process of spawner.started) process.end({ code: 0, signal: null });
          await new Promise((resolve) => setImmediate(resolve));
        }
        await Promise.all(asked);

        for (const about of ["a", "b"]) {
          const answers = told.filter((one) => one.id === about);
          const intents = answers.flatMap(({ intent }) => (intent === null ? [] : [intent]));
          const stored = receipts.disk.get(about)?.receipt.state;
          const finals = answers.flatMap(({ answer }) =>
            !(answer instanceof LemonError) && FINAL.includes(answer.state) ? [answer] : [],
          );
          // Each final answer is the one end, with the one exit.
          for (const final of finals) {
            expect(final.state).to.equal(stored?.state);
            expect(final.exitCode).to.equal(stored?.exitCode ?? null);
          }
          answers.forEach(({ call, intent, askedAfter, answer }) => {
            const before = told.slice(0, askedAfter).filter((one) => one.id === about);
            const wasFinal = before.some(
              ({ answer: earlier }) =>
                !(earlier instanceof LemonError) && FINAL.includes(earlier.state),
            );
            const wasSpent = before.some(
              ({ answer: earlier }) =>
                !(earlier instanceof LemonError) && earlier.state !== "not_found",
            );
            if (answer instanceof LemonError) {
              const { code } = answer;
              expect(code).to.be.oneOf(["process_id_conflict", "executable_not_found"]);
              expect(call).to.equal("run");
              if (code === "process_id_conflict")
                expect(new Set(intents).size).to.be.greaterThan(1);
              else expect(intent).to.equal("/missing");
              return;
            }
            if (answer.state === "not_found") expect(wasSpent).to.equal(false);
            if (answer.state === "running") expect(wasFinal).to.equal(false);
            if (call !== "get") expect(FINAL).to.include(answer.state);
          });
          if (stored?.tombstone)
            expect(answers.some(({ call }) => call === "cancel")).to.equal(true);
        }
        // Both ids together: whatever was started belongs to an id that was admitted, once.
        const admitted = [...receipts.disk.values()].filter(
          ({ receipt }) => !receipt.state.tombstone,
        );
        expect(spawner.started.length).to.be.at.most(admitted.length);
      }),
      { numRuns: 300 },
    );
  });
});
