import { expect } from "chai";
import { LOST } from "../../../actors/job/messages.ts";
import { FollowedFrames, WatchedFrames } from "../../../gateways/unix-http/live-frames.ts";
import { settle } from "../../support/fake-clock.ts";

describe("Frames of an iteration", () => {
  /** How far the source was asked, and whether it was ended. */
  let given: number;
  let ended: boolean;

  async function* counting(signal: AbortSignal): AsyncGenerator<number> {
    try {
      for (let n = 1; !signal.aborted; n += 1) {
        given = n;
        yield n;
      }
    } finally {
      ended = true;
    }
  }

  const followed = (resumed = false, weight = 1): FollowedFrames<number> =>
    new FollowedFrames({ follow: counting, resumed, weightOf: () => weight });

  beforeEach(() => {
    given = 0;
    ended = false;
  });

  it("are numbered from 1, over all batches", async () => {
    const frames = followed();
    const first = await frames.next();
    expect(first?.[0]).to.deep.equal({ id: 1, data: 1 });
    const second = await frames.next();
    expect(second?.[0]?.id).to.equal((first?.length ?? 0) + 1);
    frames.close();
  });

  it("begin with one lost frame for a reader that comes back", async () => {
    const frames = followed(true);
    expect(await frames.next()).to.deep.equal([{ id: 1, data: LOST }]);
    expect((await frames.next())?.[0]).to.deep.equal({ id: 2, data: 1 });
    frames.close();
  });

  it("hold the source up while 256 wait, and lose none", async () => {
    const frames = followed();
    await frames.next();
    await settle();
    const before = given;
    await settle();
    expect(given).to.equal(before);
    const batch = (await frames.next()) ?? [];
    expect(batch).to.have.length(256);
    await settle();
    expect(given).to.equal(before + 256);
    const next = (await frames.next()) ?? [];
    expect(next[0]?.id).to.equal((batch.at(-1)?.id ?? 0) + 1);
    frames.close();
  });

  it("hold the source up while 256 KiB wait, however few those are", async () => {
    const frames = followed(false, 262_144);
    await frames.next();
    await settle();
    expect(given).to.equal(2);
    frames.close();
  });

  it("end with the source", async () => {
    const frames = new FollowedFrames({
      follow: async function* () {
        yield "only";
      },
      resumed: false,
      weightOf: () => 1,
    });
    expect(await frames.next()).to.deep.equal([{ id: 1, data: "only" }]);
    expect(await frames.next()).to.equal(null);
  });

  it("tell why the source failed, after what it gave", async () => {
    const frames = new FollowedFrames({
      follow: async function* () {
        yield "only";
        throw new Error("torn");
      },
      resumed: false,
      weightOf: () => 1,
    });
    expect(await frames.next()).to.have.length(1);
    const failure = await frames.next().catch((thrown: unknown) => thrown);
    expect(failure).to.be.an("error").with.property("message", "torn");
  });

  it("end their source when they are closed, also while it is held up", async () => {
    const frames = followed();
    await frames.next();
    await settle();
    frames.close();
    await settle();
    expect(ended).to.equal(true);
    expect(await frames.next()).to.equal(null);
  });

  it("let go of who waits when they are closed, and never begin a source that nobody asked for", async () => {
    let begun = 0;
    const silent = (): FollowedFrames<never> =>
      new FollowedFrames({
        follow: async function* (signal) {
          begun += 1;
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
        },
        resumed: false,
        weightOf: () => 1,
      });
    const frames = silent();
    const next = frames.next();
    frames.close();
    expect(await next).to.equal(null);
    const unasked = silent();
    unasked.close();
    expect(await unasked.next()).to.equal(null);
    expect(begun).to.equal(1);
  });
});

describe("Frames of a source that waits for nobody", () => {
  let tell: (n: number) => void;
  let watching: number;

  const watched = (resumed = false): WatchedFrames<number> =>
    new WatchedFrames({
      watch: (onEvent) => {
        tell = onEvent;
        watching += 1;
        return () => {
          watching -= 1;
        };
      },
      resumed,
    });

  beforeEach(() => {
    watching = 0;
  });

  it("come as they happen, numbered from 1", async () => {
    const frames = watched();
    const next = frames.next();
    tell(7);
    tell(8);
    expect(await next).to.deep.equal([
      { id: 1, data: 7 },
      { id: 2, data: 8 },
    ]);
  });

  it("begin with one lost frame for a reader that comes back", async () => {
    const frames = watched(true);
    tell(7);
    expect(await frames.next()).to.deep.equal([
      { id: 1, data: LOST },
      { id: 2, data: 7 },
    ]);
  });

  it("keep the latest 256, and say once that others were lost", async () => {
    const frames = watched();
    for (let n = 1; n <= 256; n += 1) tell(n);
    tell(257);
    tell(258);
    const batch = (await frames.next()) ?? [];
    expect(batch[0]).to.deep.equal({ id: 1, data: LOST });
    expect(batch.filter(({ data }) => data === LOST)).to.have.length(1);
    expect(batch.slice(1).map(({ data }) => data)).to.deep.equal(
      Array.from({ length: 256 }, (_, at) => at + 3),
    );
  });

  it("let go of their source, once, when they are closed, and of who waits", async () => {
    const frames = watched();
    const next = frames.next();
    frames.close();
    frames.close();
    expect(await next).to.equal(null);
    expect(watching).to.equal(0);
  });
});
