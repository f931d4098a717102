import { expect } from "chai";
import fc from "fast-check";
import { RESOURCE_CLASSES, type ResourceClass } from "../../../actors/job/kind.ts";
import { JobQueue } from "../../../actors/job/queue.ts";

interface Job {
  readonly name: string;
  readonly dangerous: boolean;
  readonly resourceClass: ResourceClass;
}

const plain = (name: string, resourceClass: ResourceClass): Job => ({
  name,
  resourceClass,
  dangerous: false,
});
const danger = (name: string, resourceClass: ResourceClass = "disk"): Job => ({
  name,
  resourceClass,
  dangerous: true,
});
const namesOf = (jobs: Iterable<Job>): string[] => [...jobs].map(({ name }) => name);

function queueOf(...jobs: readonly Job[]): JobQueue<Job> {
  const queue = new JobQueue<Job>();
  for (const job of jobs) {
    queue.enter(job);
    queue.ready(job);
  }
  return queue;
}

describe("The queue of jobs", () => {
  it("lets one of each class run, and any number of class none", () => {
    const queue = queueOf(
      plain("a", "apt"),
      plain("b", "apt"),
      plain("c", "disk"),
      plain("d", "none"),
      plain("e", "none"),
    );
    expect(namesOf(queue.begin())).to.deep.equal(["a", "c", "d", "e"]);
    expect(namesOf(queue.waiting)).to.deep.equal(["b"]);
    expect(queue.begin()).to.deep.equal([]);
  });

  it("lets the next of a class begin when the one before has ended", () => {
    const [a, b, c] = [plain("a", "apt"), plain("b", "apt"), plain("c", "apt")];
    const queue = queueOf(a, b, c);
    queue.begin();
    queue.leave(a);
    expect(namesOf(queue.begin())).to.deep.equal(["b"]);
    queue.leave(c);
    queue.leave(b);
    expect(queue.begin()).to.deep.equal([]);
    expect(queue.size).to.equal(0);
  });

  it("lets a dangerous one begin only when nothing runs, and nothing beside it", () => {
    const [a, d] = [plain("a", "none"), danger("d")];
    const queue = queueOf(a, d);
    expect(namesOf(queue.begin())).to.deep.equal(["a"]);
    queue.leave(a);
    expect(namesOf(queue.begin())).to.deep.equal(["d"]);
    const [after, other] = [plain("after", "none"), danger("other", "none")];
    for (const job of [after, other]) {
      queue.enter(job);
      queue.ready(job);
    }
    expect(queue.begin()).to.deep.equal([]);
    queue.leave(d);
    expect(namesOf(queue.begin())).to.deep.equal(["after"]);
  });

  it("lets nothing that came later pass a dangerous one that waits", () => {
    const [a, d, late] = [plain("a", "apt"), danger("d"), plain("late", "network")];
    const queue = queueOf(a, d, late);
    expect(namesOf(queue.begin())).to.deep.equal(["a"]);
    queue.leave(a);
    expect(namesOf(queue.begin())).to.deep.equal(["d"]);
    queue.leave(d);
    expect(namesOf(queue.begin())).to.deep.equal(["late"]);
  });

  it("holds the place of one that is not ready, against all that it excludes", () => {
    const [first, second, other] = [plain("a", "apt"), plain("b", "apt"), plain("c", "disk")];
    const queue = new JobQueue<Job>();
    for (const job of [first, second, other]) queue.enter(job);
    queue.ready(second);
    queue.ready(other);
    expect(namesOf(queue.begin())).to.deep.equal(["c"]);
    queue.ready(first);
    expect(namesOf(queue.begin())).to.deep.equal(["a"]);
    expect(namesOf(queue.waiting)).to.deep.equal(["b"]);
  });

  it("tells how many are to begin before", () => {
    const jobs = [
      plain("runs", "apt"),
      plain("apt-1", "apt"),
      plain("apt-2", "apt"),
      danger("danger"),
      plain("apt-3", "apt"),
      plain("apt-4", "apt"),
      plain("free", "none"),
    ];
    const queue = queueOf(...jobs);
    queue.begin();
    expect(jobs.map((job) => queue.positionOf(job))).to.deep.equal([null, 1, 2, 3, 4, 5, 4]);
  });

  it("never runs two that exclude each other, starves nobody, keeps the order, and counts it right", () => {
    const job = fc.record({
      dangerous: fc.boolean(),
      resourceClass: fc.constantFrom(...RESOURCE_CLASSES),
    });
    const step = fc.oneof(job, fc.nat(7));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const queue = new JobQueue<Job>();
        const order: Job[] = [];
        const begun: Job[] = [];
        const positions = new Map<Job, number>();
        const go = (): void => {
          begun.push(...queue.begin());
          const running = [...queue.running];
          if (running.some(({ dangerous }) => dangerous)) expect(running).to.have.length(1);
          const classes = running.map((one) => one.resourceClass).filter((one) => one !== "none");
          expect(new Set(classes).size).to.equal(classes.length);
          for (const waiting of queue.waiting) {
            const position = queue.positionOf(waiting) ?? 0;
            expect(position).to.be.within(1, positions.get(waiting) ?? order.length);
            positions.set(waiting, position);
          }
        };
        for (const one of steps) {
          if (typeof one === "number") {
            const running = [...queue.running];
            const ends = running[one % Math.max(1, running.length)];
            if (ends !== undefined) queue.leave(ends);
          } else {
            const entering = { ...one, name: String(order.length) };
            order.push(entering);
            queue.enter(entering);
            queue.ready(entering);
          }
          go();
        }
        // Everything runs in the end, as long as what runs ends.
        for (let rounds = 0; queue.size > 0; rounds += 1) {
          expect(rounds).to.be.at.most(order.length);
          for (const running of [...queue.running]) queue.leave(running);
          go();
        }
        expect(begun).to.have.length(order.length);
        // Across a dangerous job, and within a class, in the order of arrival.
        for (const [at, earlier] of order.entries()) {
          for (const later of order.slice(at + 1)) {
            const kept =
              earlier.dangerous ||
              later.dangerous ||
              (earlier.resourceClass !== "none" && earlier.resourceClass === later.resourceClass);
            if (kept) expect(begun.indexOf(earlier)).to.be.lessThan(begun.indexOf(later));
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});
