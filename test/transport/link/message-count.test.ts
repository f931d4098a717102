import { randomBytes } from "node:crypto";
import { expect } from "chai";
import fc from "fast-check";
import { MessageCount } from "../../../transport/link/message-count.ts";

/** A websocket frame, masked as a client's are unless told otherwise. */
function frame(payload: Buffer, { opcode = 2, masked = true } = {}): Buffer {
  const { length } = payload;
  const head = [0x80 | opcode];
  const mask = masked ? 0x80 : 0;
  if (length < 126) head.push(mask | length);
  else if (length < 65_536) head.push(mask | 126, length >> 8, length & 0xff);
  else {
    const wide = Buffer.alloc(8);
    wide.writeBigUInt64BE(BigInt(length));
    head.push(mask | 127, ...wide);
  }
  if (!masked) return Buffer.concat([Buffer.from(head), payload]);
  const key = randomBytes(4);
  const hidden = payload.map((byte, at) => byte ^ (key[at & 3] ?? 0));
  return Buffer.concat([Buffer.from(head), key, hidden]);
}

const lmsg = (subject: string, payload: Buffer): Buffer =>
  Buffer.concat([
    Buffer.from(`LMSG ${subject} ${payload.length}\r\n`),
    payload,
    Buffer.from("\r\n"),
  ]);

function count(...frames: readonly Buffer[]): number {
  const counter = new MessageCount();
  return frames.reduce((sum, bytes) => sum + counter.take(bytes), 0);
}

describe("the count of a node's messages", () => {
  it("is the number of messages, however they are framed, cut and masked, and whatever they hold", () => {
    const message = fc.oneof(
      fc.uint8Array({ maxLength: 300 }).map((bytes) => lmsg("ctl.A.r.1", Buffer.from(bytes))),
      fc.nat(70_000).map((length) => lmsg("ctl.A.r.2 reply", Buffer.alloc(length, "LMSG x 1\r\n"))),
      fc
        .uint8Array({ maxLength: 40 })
        .map((bytes) =>
          Buffer.concat([
            Buffer.from(`HMSG ctl.A.r.3 12 ${12 + bytes.length}\r\nNATS/1.0\r\n\r\n`),
            bytes,
            Buffer.from("\r\n"),
          ]),
        ),
      fc
        .constantFrom(
          "PING\r\n",
          "PONG\r\n",
          "LS+ node.A.>\r\n",
          "LS+ node.A.> q 99999\r\n",
          "LS- x\r\n",
        )
        .map((line) => Buffer.from(line)),
    );
    fc.assert(
      fc.property(
        fc.array(message, { maxLength: 12 }),
        fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1, maxLength: 8 }),
        fc.array(fc.integer({ min: 1, max: 3_000 }), { minLength: 1, maxLength: 8 }),
        fc.boolean(),
        (messages, frameSizes, chunkSizes, masked) => {
          const frames: Buffer[] = [];
          let pings = 0;
          const stream = Buffer.concat(messages);
          for (let at = 0, turn = 0; at < stream.length; turn++) {
            const size = frameSizes[turn % frameSizes.length] ?? 1;
            frames.push(frame(stream.subarray(at, at + size), { masked }));
            if (turn % 3 === 0) {
              frames.push(frame(Buffer.from("ping\r\n"), { opcode: 9 }));
              pings += 1;
            }
            at += size;
          }
          const line = Buffer.concat(frames);
          const counter = new MessageCount();
          let counted = 0;
          for (let at = 0, turn = 0; at < line.length; turn++) {
            const size = chunkSizes[turn % chunkSizes.length] ?? 1;
            counted += counter.take(line.subarray(at, at + size));
            at += size;
          }
          expect(counted).to.equal(messages.length + pings);
        },
      ),
      { numRuns: 60 },
    );
  });

  it("holds control frames for messages, since the hub answers them: whatever is in them, and empty ones", () => {
    for (const opcode of [8, 9, 10]) {
      for (const payload of ["", "PING\r\nPING\r\n"]) {
        const control = frame(Buffer.from(payload), { opcode });
        expect(count(control, control), `opcode ${opcode}`).to.equal(2);
      }
    }
    for (const opcode of [0, 1, 2, 7]) {
      expect(count(frame(Buffer.alloc(0), { opcode })), `opcode ${opcode}`).to.equal(0);
    }
  });

  it("passes over no payload but a message's own: a number elsewhere hides nothing", () => {
    for (const line of [
      "LS+ a q 1000000",
      "PUB a 1000000",
      "CONNECT 1000000",
      "LMS 1000000",
      "XLMSG a 1000000",
      "LMSG a 1000000x",
      "LMSG a",
    ]) {
      expect(count(frame(Buffer.from(`${line}\r\nPING\r\nPING\r\n`))), line).to.equal(3);
    }
  });

  it("follows the freedoms that the hub's parser takes", () => {
    for (const line of [
      "lmsg a 6",
      "LMSG\ta\t6",
      "LMSG  a   6",
      "LMSG a 6 ",
      "LMSG a | q 6",
      "LMSG a + r q 6",
      "LMSG a 006",
    ]) {
      expect(count(frame(Buffer.from(`${line}\r\nPING\r\n\r\nPING\r\n`))), line).to.equal(2);
    }
    expect(count(frame(Buffer.from("LMSG a 6\nPING\r\n\r\nPING\n")))).to.equal(2);
  });

  it("counts on over what is no protocol, and never fails", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 20 }), (chunks) => {
        const counter = new MessageCount();
        for (const chunk of chunks) expect(counter.take(chunk)).to.be.within(0, chunk.length);
      }),
    );
  });
});
