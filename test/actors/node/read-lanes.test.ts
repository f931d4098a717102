import { expect } from "chai";
import { ReadLanes } from "../../../actors/node/read-lanes.ts";
import type { NodeId } from "../../../protocol/ids.ts";
import { FakeClock, settle } from "../../support/fake-clock.ts";
import { codeOfRejection } from "../../support/supervision.ts";

const MIB = 1_048_576;
const NODE = "node-1" as NodeId;

describe("the lanes of reads", () => {
  let clock: FakeClock;
  let lanes: ReadLanes;
  /** What has begun, in order, each with the way to end it. */
  let begun: { readonly name: string; readonly end: () => void }[];

  beforeEach(() => {
    clock = new FakeClock();
    lanes = new ReadLanes(clock);
    begun = [];
  });

  /** The first letter of its name is its caller. */
  const read = (name: string, bytes = MIB, node = NODE): Promise<number> =>
    lanes.through(node, name.slice(0, 1), bytes, (waitedMs) => {
      const { promise, resolve } = Promise.withResolvers<number>();
      begun.push({ name, end: () => resolve(waitedMs) });
      return promise;
    });
  const names = (): string[] => begun.map(({ name }) => name);

  it("let two chunks of a node be under way, and the next when one has ended", async () => {
    for (const name of ["a1", "a2", "a3"]) void read(name);
    await settle();
    expect(names()).to.deep.equal(["a1", "a2"]);
    begun[1]?.end();
    await settle();
    expect(names()).to.deep.equal(["a1", "a2", "a3"]);
  });

  it("let callers take turns", async () => {
    for (const name of ["a1", "a2", "a3", "a4", "b1", "c1"]) void read(name);
    for (let ended = 0; ended < 6; ended += 1) {
      await settle();
      begun[ended]?.end();
    }
    expect(names().slice(2)).to.deep.equal(["a3", "b1", "c1", "a4"]);
  });

  it("do not let nodes wait for each other", async () => {
    for (const name of ["a1", "a2"]) void read(name);
    void read("b1", MIB, "node-2" as NodeId);
    await settle();
    expect(names()).to.include("b1");
  });

  it("go on after a read that failed", async () => {
    for (let count = 0; count < 6; count += 1) {
      const failed = lanes.through(NODE, "a", 4 * MIB, () => Promise.reject(new Error("no")));
      expect(await failed.catch((error: Error) => error.message)).to.equal("no");
    }
  });

  it("refuse what waited 20 s as not begun, and tell the others how long they waited", async () => {
    for (const name of ["a1", "a2"]) void read(name);
    const inTime = read("a3");
    const late = codeOfRejection(read("a4"));
    await clock.advance(19_999);
    begun[0]?.end();
    await settle();
    await clock.advance(1);
    expect(await late).to.equal("filesystem_busy");
    begun[2]?.end();
    expect(await inTime).to.equal(19_999);
    expect(names()).to.not.include("a4");
    expect(clock.pending).to.equal(0);
  });

  it("take 256 waiting reads of one caller and refuse one more", async () => {
    for (let count = 0; count < 2 + 256; count += 1) void read("a");
    expect(await codeOfRejection(read("a"))).to.equal("filesystem_busy");
    void read("b");
    begun[0]?.end();
  });
});
