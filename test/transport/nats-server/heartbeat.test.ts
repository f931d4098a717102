import { createServer, type Server, type Socket } from "node:net";
import { expect } from "chai";
import { BEAT_MS, listenForBeats } from "../../../transport/nats-server/heartbeat.ts";
import { FakeClock } from "../../support/fake-clock.ts";

const INFO = `INFO ${JSON.stringify({ server_id: "S", version: "2.15.1" })}\r\n`;

describe("listening for the beats of a nats-server", () => {
  let clock: FakeClock;
  /** Added to what the clock says: time in which this process did nothing. */
  let heldUpMs: number;
  let server: Server;
  let port: number;
  let answers: boolean;
  let sockets: Socket[];
  /** Called when somebody asks. */
  let onAsked: () => void;
  let silences: number[];
  let stop: () => void;

  beforeEach(async () => {
    clock = new FakeClock();
    heldUpMs = 0;
    answers = true;
    sockets = [];
    silences = [];
    onAsked = () => {};
    server = createServer((socket) => {
      sockets.push(socket);
      socket.on("error", () => {});
      if (answers) socket.write(INFO);
      onAsked();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    port = typeof address === "object" && address !== null ? address.port : 0;
  });
  afterEach(async () => {
    stop();
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });

  function listen(): Promise<void> {
    const asked = nextAsked();
    const bent = {
      nowMs: () => clock.nowMs(),
      monotonicMs: () => clock.monotonicMs() + heldUpMs,
      after: (delayMs: number, fire: () => void) => clock.after(delayMs, fire),
    };
    stop = listenForBeats(port, bent, (silentMs) => silences.push(silentMs));
    return asked;
  }

  function nextAsked(): Promise<void> {
    return new Promise((resolve) => {
      onAsked = resolve;
    });
  }

  /** Lets the answer to the last question arrive: then nothing but the next beat waits. */
  async function heard(): Promise<void> {
    while (clock.pending > 1) await new Promise((resolve) => setImmediate(resolve));
  }

  async function beats(count: number): Promise<void> {
    for (let n = 0; n < count; n += 1) {
      const asked = nextAsked();
      await clock.advance(BEAT_MS);
      await asked;
      if (answers) await heard();
    }
  }

  it("hears one that answers, for ever, and one question is open at a time", async () => {
    await listen();
    await heard();
    await beats(20);
    expect(silences).to.deep.equal([]);
    expect(sockets.length).to.equal(21);
  });

  it("tells of three beats without an answer, not of two, and once", async () => {
    await listen();
    await heard();
    answers = false;
    await beats(3);
    await clock.advance(BEAT_MS - 1);
    expect(silences).to.deep.equal([]);
    await clock.advance(1);
    expect(silences).to.deep.equal([4 * BEAT_MS]);
    await clock.advance(60_000);
    expect(silences.length).to.equal(1);
    expect(clock.pending).to.equal(0);
  });

  it("counts from the start again after any answer", async () => {
    await listen();
    await heard();
    answers = false;
    await beats(2);
    answers = true;
    await beats(1);
    answers = false;
    await beats(3);
    expect(silences).to.deep.equal([]);
    await clock.advance(BEAT_MS);
    expect(silences.length).to.equal(1);
  });

  it("does not count a beat that this process was late for", async () => {
    answers = false;
    await listen();
    for (let n = 0; n < 10; n += 1) {
      heldUpMs += 1_000;
      await beats(1);
    }
    expect(silences).to.deep.equal([]);
    heldUpMs += 999;
    await beats(2);
    await clock.advance(BEAT_MS);
    expect(silences.length).to.equal(1);
  });

  it("counts a server that takes no connection", async () => {
    await listen();
    await heard();
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
    await clock.advance(4 * BEAT_MS);
    expect(silences.length).to.equal(1);
  });

  it("asks no more once it is stopped", async () => {
    await listen();
    await heard();
    stop();
    await clock.advance(60_000);
    expect([sockets.length, clock.pending, silences.length]).to.deep.equal([1, 0, 0]);
  });
});
