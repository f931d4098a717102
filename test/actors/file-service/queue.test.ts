import { expect } from "chai";
import fc from "fast-check";
import { FairQueue } from "../../../actors/file-service/queue.ts";
import { codeOfThrow } from "../../support/supervision.ts";

const LIMITS = { requests: 6, bytes: 100, callerRequests: 4, callerBytes: 60 };

interface Request {
  readonly caller: string;
  readonly bytes: number;
  readonly long: boolean;
  readonly name: string;
}

/** Its caller is its first letter; one in capitals is long. */
const request = (name: string, bytes = 1): Request => ({
  caller: name.slice(0, 1).toLowerCase(),
  bytes,
  long: name.slice(0, 1) !== name.slice(0, 1).toLowerCase(),
  name,
});

function order(queue: FairQueue<Request>): string[] {
  const names: string[] = [];
  for (let next = queue.next(); next !== null; next = queue.next()) names.push(next.name);
  return names;
}

describe("the queue in front of the file helper", () => {
  it("lets callers take turns, and keeps the order of each", () => {
    const queue = new FairQueue<Request>();
    for (const name of ["a1", "a2", "a3", "b1", "c1", "b2"]) queue.enter(request(name));
    expect(order(queue)).to.deep.equal(["a1", "b1", "c1", "a2", "b2", "a3"]);
  });

  it("lets a newcomer wait for one request of each other caller at most", () => {
    const queue = new FairQueue<Request>();
    for (let index = 0; index < 30; index += 1) {
      for (const caller of "abcdefgh") queue.enter(request(`${caller}${index}`));
    }
    queue.next();
    queue.enter(request("z"));
    expect(order(queue).indexOf("z")).to.be.at.most(8);
  });

  it("lets a short request go before the long ones of others, not before those of its own caller", () => {
    const queue = new FairQueue<Request>();
    for (const name of ["A1", "A2", "B1", "Z1", "z2", "c1"]) queue.enter(request(name));
    expect(order(queue)).to.deep.equal(["c1", "A1", "B1", "Z1", "z2", "A2"]);
    for (const caller of "ABCDEFGH") queue.enter(request(`${caller}1`));
    queue.next();
    queue.enter(request("z1"));
    expect(order(queue)[0]).to.equal("z1");
  });

  it("lets eight short requests in a row go before a long one, and no more, whoever asks", () => {
    const queue = new FairQueue<Request>();
    queue.enter(request("L1"));
    queue.enter(request("M1"));
    for (let index = 0; index < 10; index += 1) {
      for (const caller of "abc") queue.enter(request(`${caller}${index}`));
    }
    const names = order(queue);
    expect([names.indexOf("L1"), names.indexOf("M1")]).to.deep.equal([8, 17]);
    expect(names.slice(0, 4)).to.deep.equal(["a0", "b0", "c0", "a1"]);
  });

  it("takes as many requests as its bounds say and refuses one more", () => {
    const queue = new FairQueue<Request>(LIMITS);
    for (const name of ["a1", "a2", "a3", "a4"]) queue.enter(request(name));
    expect(codeOfThrow(() => queue.enter(request("a5")))).to.equal("filesystem_busy");
    for (const name of ["b1", "c1"]) queue.enter(request(name));
    expect(codeOfThrow(() => queue.enter(request("d1")))).to.equal("filesystem_busy");
    queue.next();
    queue.enter(request("d1"));
  });

  it("takes as many bytes as its bounds say and refuses one more", () => {
    const queue = new FairQueue<Request>(LIMITS);
    queue.enter(request("a1", 60));
    expect(codeOfThrow(() => queue.enter(request("a2", 1)))).to.equal("filesystem_busy");
    queue.enter(request("b1", 40));
    expect(codeOfThrow(() => queue.enter(request("c1", 1)))).to.equal("filesystem_busy");
    expect(order(queue)).to.deep.equal(["a1", "b1"]);
    queue.enter(request("c1", 60));
  });

  it("gives everything out once, whatever comes and leaves", () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(fc.constantFrom("a", "b", "c", "A", "B"), fc.constantFrom("in", "out", "leave")),
        ),
        (steps) => {
          const queue = new FairQueue<Request>();
          const inside = new Set<Request>();
          for (const [index, [caller, step]] of steps.entries()) {
            if (step === "in") {
              const one = request(`${caller}${index}`);
              queue.enter(one);
              inside.add(one);
            } else {
              const one = step === "out" ? queue.next() : queue.oldest;
              if (one === null) {
                expect(inside.size).to.equal(0);
                continue;
              }
              if (step === "leave") queue.leave(one);
              expect(inside.delete(one)).to.equal(true);
            }
            expect(queue.oldest ?? undefined).to.equal([...inside][0]);
          }
          expect(order(queue).sort()).to.deep.equal([...inside].map(({ name }) => name).sort());
        },
      ),
    );
  });
});
