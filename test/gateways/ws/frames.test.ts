import { assert } from "chai";
import fc from "fast-check";
import { POLICY } from "../../../protocol/frames.ts";
import { type TestGateway, testGateway } from "../../support/gateway.ts";
import {
  type Frame,
  OPCODE,
  RawClient,
  upgradeRequest,
  WsClient,
  wsFrame,
} from "../../support/ws-client.ts";

const refusal = (message: string, code = "invalid_request"): Frame => ({
  type: "res",
  id: "unknown",
  ok: false,
  error: { code: "INVALID_REQUEST", message, details: { code, retrySafe: false } },
});

/** A request of exactly so many bytes; what pads it is an unknown parameter. */
function requestOfBytes(bytes: number, unit = "x"): string {
  const empty = '{"type":"req","id":"1","method":"health","params":{"pad":""}}';
  const left = bytes - empty.length;
  const units = Math.floor(left / Buffer.byteLength(unit));
  const pad = unit.repeat(units) + "x".repeat(left - units * Buffer.byteLength(unit));
  return empty.replace('""', `"${pad}"`);
}

describe("a frame on /ws", () => {
  let gateway: TestGateway;
  let client: WsClient;

  beforeEach(async () => {
    gateway = await testGateway();
    client = await WsClient.connect(gateway.url);
  });
  afterEach(() => gateway.close());

  const stillServed = async (): Promise<void> => {
    const id = client.request("health");
    let frame = await client.next();
    while (frame.id !== id) frame = await client.next();
    assert.equal(frame.ok, true);
  };

  const TABLE: readonly (readonly [string, string | Buffer, string])[] = [
    ["that is not JSON", "{", "Invalid JSON: the frame is not one JSON value"],
    ["that is empty", "", "Invalid JSON: the frame is not one JSON value"],
    ["of another type", '{"type":"event","id":"1"}', "expected request frame, got: event"],
    ["without an id", '{"type":"req","method":"health"}', "request frame must have id and method"],
    [
      "with a number as id",
      '{"type":"req","id":1,"method":"health"}',
      "request frame must have id and method",
    ],
    ["without a method", '{"type":"req","id":"1"}', "request frame must have id and method"],
    ["without a type", '{"id":"1","method":"health"}', "frame must have type field"],
    ["that is no object", '["req"]', "frame must have type field"],
    [
      "that is binary",
      Buffer.from('{"type":"req","id":"1","method":"health"}'),
      "Binary frames not supported",
    ],
    [
      "that is too deep",
      `${"[".repeat(34)}${"]".repeat(34)}`,
      "Payload violates JSON boundary policy",
    ],
    [
      "with too many items",
      JSON.stringify(Array(10_001).fill(0)),
      "Payload violates JSON boundary policy",
    ],
  ];
  for (const [what, bytes, message] of TABLE) {
    it(`${what} is answered with id unknown, and the socket is kept`, async () => {
      client.socket.send(bytes);
      assert.deepEqual(await client.next(), refusal(message));
      await stillServed();
    });

    it(`${what} is answered the same before the handshake`, async () => {
      const stranger = await WsClient.open(gateway.url);
      stranger.socket.send(bytes);
      assert.deepEqual(await stranger.next(), refusal(message));
      await stranger.close();
    });
  }

  it("may be as large as maxPayload, in bytes", async () => {
    for (const unit of ["x", "é", "€", "😀"]) {
      client.send(requestOfBytes(POLICY.maxPayload, unit));
      assert.equal((await client.next()).ok, true);
    }
  });

  it("one byte larger is answered with id unknown, and the socket is kept", async () => {
    for (const bytes of [POLICY.maxPayload + 1, 2 * POLICY.maxPayload]) {
      client.send(requestOfBytes(bytes));
      assert.deepEqual(
        await client.next(),
        refusal("Payload exceeds maxPayload policy", "too_large"),
      );
      await stillServed();
    }
  });

  it("that is far too large closes the socket with 1009 before it is read", async () => {
    client.send(requestOfBytes(2 * POLICY.maxPayload + 1));
    assert.equal((await client.closed()).code, 1009);
  });

  it("that only claims to be far too large does so too", async () => {
    const raw = await RawClient.upgrade(gateway.port);
    const head = Buffer.from([0x81, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    raw.socket.write(head);
    await raw.ended;
    assert.include(raw.bytes.subarray(-4).toString("hex"), "03f1");
  });

  it("may come in fragments, with control frames between them", async () => {
    const raw = await RawClient.upgrade(gateway.port);
    const text = '{"type":"req","id":"é-1","method":"health"}';
    const bytes = Buffer.from(text);
    // One of the cuts goes through the two bytes of é.
    raw.socket.write(wsFrame(OPCODE.text, bytes.subarray(0, 20), false));
    raw.socket.write(wsFrame(OPCODE.ping, "are you there"));
    raw.socket.write(wsFrame(OPCODE.continuation, "", false));
    for (const byte of bytes.subarray(20, -1)) {
      raw.socket.write(wsFrame(OPCODE.continuation, Buffer.from([byte]), false));
    }
    raw.socket.write(wsFrame(OPCODE.continuation, bytes.subarray(-1)));
    const received = await raw.until("HANDSHAKE_REQUIRED");
    assert.include(received, "\x8a\x0dare you there");
    assert.include(Buffer.from(received, "latin1").toString(), '"id":"é-1"');
    raw.socket.destroy();
  });

  it("cut into more fragments than any client needs closes the socket with 1008", async () => {
    const raw = await RawClient.upgrade(gateway.port);
    const fragment = wsFrame(OPCODE.continuation, "", false);
    raw.socket.write(wsFrame(OPCODE.text, "", false));
    raw.socket.write(Buffer.concat(Array(16_384).fill(fragment)));
    await raw.ended;
    assert.include(raw.bytes.subarray(-40).toString("latin1"), "\x03\xf0");
  });

  it("may come byte by byte", async () => {
    const raw = await RawClient.upgrade(gateway.port);
    for (const byte of wsFrame(OPCODE.text, '{"type":"req","id":"slow","method":"health"}')) {
      raw.socket.write(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.include(await raw.until('"slow"'), "HANDSHAKE_REQUIRED");
    raw.socket.destroy();
  });

  it("may come in one packet with the handshake and with many others; the order is kept", async () => {
    const raw = await RawClient.open(gateway.port);
    const frames = Array.from({ length: 1_000 }, (_, index) =>
      wsFrame(OPCODE.text, `{"type":"req","id":"n${index}","method":"health"}`),
    );
    raw.socket.write(Buffer.concat([Buffer.from(upgradeRequest(gateway.port, "/ws")), ...frames]));
    const received = await raw.until('"id":"n999"');
    const ids = [...received.matchAll(/"id":"n(\d+)"/g)].map((match) => Number(match[1]));
    assert.deepEqual(ids, [...Array(1_000).keys()]);
    raw.socket.destroy();
  });

  it("that breaks the protocol closes the socket with what RFC 6455 says", async () => {
    const breaches: readonly (readonly [string, Buffer, string])[] = [
      ["unmasked", Buffer.from([0x81, 0x01, 0x78]), "03ea"],
      ["with a reserved bit", Buffer.from([0xc1, 0x80, 0, 0, 0, 0]), "03ea"],
      ["of a reserved opcode", Buffer.from([0x83, 0x80, 0, 0, 0, 0]), "03ea"],
      ["continuing nothing", wsFrame(OPCODE.continuation, "x"), "03ea"],
      ["a fragmented ping", wsFrame(OPCODE.ping, "x", false), "03ea"],
      ["a text that is not UTF-8", wsFrame(OPCODE.text, Buffer.from([0xff])), "03ef"],
    ];
    for (const [what, bytes, code] of breaches) {
      const raw = await RawClient.upgrade(gateway.port);
      raw.socket.write(bytes);
      await raw.ended;
      assert.equal(raw.bytes.subarray(-4).toString("hex"), `8802${code}`, what);
    }
    await stillServed();
  });

  it("offered with compression or a subprotocol gets neither", async () => {
    const raw = await RawClient.upgrade(gateway.port, {
      headers: {
        "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits",
        "Sec-WebSocket-Protocol": "a, b",
      },
    });
    assert.match(raw.received, /^HTTP\/1\.1 101 /);
    assert.notMatch(raw.received, /sec-websocket-(extensions|protocol)/i);
    raw.socket.destroy();
  });

  it("never comes to be when the handshake is wrong: 400 in the envelope", async () => {
    const wrong: readonly Record<string, string>[] = [
      { "Sec-WebSocket-Key": "short" },
      { "Sec-WebSocket-Version": "7" },
      { "Sec-WebSocket-Protocol": "a,,b" },
    ];
    for (const headers of wrong) {
      const raw = await RawClient.open(gateway.port);
      raw.socket.write(upgradeRequest(gateway.port, "/ws", headers));
      assert.match(
        await raw.all(),
        /^HTTP\/1\.1 400 [\s\S]*\r\n\r\n\{"error":\{"code":"INVALID_REQUEST"/,
      );
    }
  });

  it("can be any bytes at all: others are served as before, and nothing is left behind", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 300 }), async (bytes) => {
        const raw = await RawClient.upgrade(gateway.port);
        raw.socket.end(bytes);
        await raw.ended;
        await stillServed();
      }),
      { numRuns: 150 },
    );
    assert.equal(gateway.connections(), 1);
    assert.notInclude(gateway.text(), "actor crashed");
  });

  it("can be any text, any JSON, any request: each is answered, and the socket is kept", async () => {
    const request = fc.record(
      {
        type: fc.oneof(fc.constant("req"), fc.jsonValue()),
        id: fc.oneof(fc.string({ unit: "binary" }), fc.jsonValue()),
        method: fc.oneof(fc.constantFrom("health", "status", "connect", "nope"), fc.jsonValue()),
        params: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.json(),
      request.map((frame) => JSON.stringify(frame)),
    );
    await fc.assert(
      fc.asyncProperty(text, async (sent) => {
        client.socket.send(sent);
        const answer = await client.next();
        assert.equal(answer["type"], "res");
        assert.isString(answer.id);
      }),
      { numRuns: 500 },
    );
    await stillServed();
  });
});
