import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect } from "chai";
import { openConnection } from "../../transport/connection.ts";

const INFO = { server_id: "S", version: "2.15.1", proto: 1, headers: true, max_payload: 1_048_576 };
/** More than the buffers of both sides take. */
const MESSAGES = 24;

describe("a connection that is closed while its server goes", () => {
  it("harms nobody with what it has just said and can not be written any more", async () => {
    const peer = Promise.withResolvers<Socket>();
    const server = createServer((socket) => {
      peer.resolve(socket);
      socket.on("error", () => {});
      socket.write(`INFO ${JSON.stringify(INFO)}\r\n`);
      socket.on("data", (bytes: Buffer) => {
        if (bytes.includes("PING\r\n")) socket.write("PONG\r\n");
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const connection = await openConnection({
      url: `nats://127.0.0.1:${port}`,
      name: "closing",
      as: "nobody",
    });
    const subscription = connection.subscribe("answers");
    await connection.flush();

    // It reads no more, so that what we send waits; then it ends, and our side may say nothing more.
    const socket = await peer.promise;
    socket.pause();
    for (let sent = 0; sent < MESSAGES; sent += 1) {
      connection.publish("much", new Uint8Array(INFO.max_payload));
    }
    socket.end();
    await once(socket, "finish");
    await seenByClient();

    subscription.unsubscribe();
    await null;
    await connection.close();
    expect(connection.isClosed()).to.equal(true);
    socket.destroy();
    server.close();
    await once(server, "close");
  });
});

/** The end has come in after a few turns of the loop. */
async function seenByClient(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
