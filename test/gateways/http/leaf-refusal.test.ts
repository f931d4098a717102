import { once } from "node:events";
import { createServer } from "node:net";
import { assert } from "chai";
import { refuseLeaf } from "../../../gateways/http/leaf-refusal.ts";
import { RawClient } from "../../support/ws-client.ts";

describe("the refusal of a leaf link", () => {
  for (const [status, code, header] of [
    [400, "INVALID_REQUEST", null],
    [404, "NOT_FOUND", null],
    [405, "INVALID_REQUEST", "Allow: GET"],
    [426, "INVALID_REQUEST", "Upgrade: websocket"],
    [502, "UNAVAILABLE", null],
    [503, "UNAVAILABLE", "Retry-After: 1"],
    [504, "TIMEOUT", null],
  ] as const) {
    it(`with ${status} is ${code} in the envelope of this port, and the end of the connection`, async () => {
      const server = createServer((socket) => refuseLeaf(socket, status)).listen(0, "127.0.0.1");
      await once(server, "listening");
      const address = server.address();
      try {
        const raw = await RawClient.open(typeof address === "object" ? (address?.port ?? 0) : 0);
        const [head = "", body = ""] = (await raw.all()).split("\r\n\r\n");
        assert.match(head, new RegExp(`^HTTP/1\\.1 ${status} `));
        assert.match(head, /^Connection: close$/m);
        assert.match(head, /^Content-Type: application\/json/m);
        assert.match(head, /^X-Content-Type-Options: nosniff/m);
        if (header !== null) assert.include(head, header);
        const { error, ...rest } = JSON.parse(body);
        assert.deepEqual(rest, {});
        assert.deepEqual(Object.keys(error), ["code", "message"]);
        assert.equal(error.code, code);
        raw.socket.destroy();
      } finally {
        server.close();
      }
    });
  }
});
