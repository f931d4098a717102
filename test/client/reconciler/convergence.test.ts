/** Proves over random histories that a pass brings into effect exactly what was cut off, and touches nothing else. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import { ChangeRefused, Reconciler } from "../../../client/reconciler/index.ts";
import { HostInMemory } from "../../support/reconciled-host.ts";
import { tempFolder } from "../../support/temp-folder.ts";

const KEYS = ["time/zone", "host/hostname", "network/primary"] as const;
type Key = (typeof KEYS)[number];

const step = fc.record({
  act: fc.constantFrom("set", "set", "set", "outside", "cut", "heal", "restart", "pass"),
  key: fc.constantFrom(...KEYS),
  value: fc.constantFrom("a", "b", "c"),
  mishap: fc.constantFrom(null, null, "lost_before", "lost_after", "ignored", "refused"),
} as const);

function read({ state }: HostInMemory, key: Key): string {
  if (key === "time/zone") return state.time.zone;
  return key === "host/hostname" ? state.host.hostname : state.network.primary;
}

function write({ state }: HostInMemory, key: Key, value: string): void {
  if (key === "time/zone") state.time = { zone: value };
  else if (key === "host/hostname") state.host = { hostname: value };
  else state.network = { ...state.network, primary: value };
}

describe("over any history", () => {
  it("what was cut off comes into effect, what was verified is only watched, and what was refused is gone", async () => {
    using folder = tempFolder();
    let rounds = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 14 }), async (steps) => {
        rounds += 1;
        const path = join(folder.path, `${rounds}.db`);
        const host = new HostInMemory();
        let reconciler = new Reconciler({ path, host });
        /** What is wanted, and whether it was seen in effect since. */
        const model = new Map<Key, { wanted: string; open: boolean; before: string | undefined }>();
        const settle = (): void => {
          if (!host.reachable) return;
          for (const entry of model.values()) entry.open = false;
        };
        for (const next of steps) {
          if (next.act === "outside") write(host, next.key, next.value);
          else if (next.act === "cut") host.reachable = false;
          else if (next.act === "heal") host.reachable = true;
          else if (next.act === "pass") {
            host.mishap = null;
            await reconciler.pass();
            settle();
          } else if (next.act === "restart") {
            await reconciler.close();
            reconciler = new Reconciler({ path, host });
          } else {
            host.mishap = next.mishap;
            const entry = model.get(next.key);
            const before = entry?.open ? entry.before : entry?.wanted;
            const refusal = await reconciler.set(next.key, next.value).then(
              (report) => report,
              (failure: unknown) => failure,
            );
            if (refusal instanceof ChangeRefused) {
              if (before === undefined) model.delete(next.key);
              else model.set(next.key, { wanted: before, open: false, before: undefined });
            } else {
              const open = Object(refusal).state === "pending";
              model.set(next.key, { wanted: next.value, open, before });
            }
            host.mishap = null;
          }
        }
        host.reachable = true;
        const had = new Map(KEYS.map((key) => [key, read(host, key)]));
        const report = await reconciler.pass();
        await reconciler.close();
        rmSync(path);
        expect(report.settings.map(({ key }) => key)).to.have.members([...model.keys()]);
        for (const { key, state, wanted } of report.settings) {
          const entry = model.get(key as Key);
          expect(wanted).to.equal(entry?.wanted);
          if (entry?.open)
            expect([state, read(host, key as Key)]).to.deep.equal(["in_effect", wanted]);
          else {
            expect(read(host, key as Key), "untouched").to.equal(had.get(key as Key));
            expect(state).to.equal(had.get(key as Key) === wanted ? "in_effect" : "drift");
          }
        }
        for (const key of KEYS) {
          if (!model.has(key)) expect(read(host, key)).to.equal(had.get(key));
        }
      }),
      { numRuns: 60 },
    );
  });
});
