import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { assert } from "chai";
import { RawClient, WsClient } from "../../support/ws-client.ts";

const DOOR = fileURLToPath(new URL("../../support/door-process.ts", import.meta.url));

describe("a control plane that has no file descriptor left", () => {
  it("turns peers away, serves those it has, and takes new ones when there is room again", async () => {
    const script = 'ulimit -n 64 && exec "$0" "$1"';
    const door = spawn("sh", ["-c", script, process.execPath, DOOR], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    try {
      const [{ port }] = await once(door, "message");
      const url = `ws://127.0.0.1:${port}/ws`;
      const client = await WsClient.connect(url);
      const peers = await Promise.all(Array.from({ length: 100 }, () => RawClient.open(port)));
      // Those that were taken in and turned away again, for want of a descriptor.
      await Promise.race(peers.map((peer) => peer.ended));
      assert.equal((await client.call("health")).ok, true);
      for (const peer of peers) peer.socket.destroy();
      assert.equal((await client.call("health")).ok, true);
      const later = await WsClient.connect(url);
      assert.equal((await later.call("health")).ok, true);
      later.socket.terminate();
      client.socket.terminate();
    } finally {
      door.disconnect();
      await once(door, "exit");
    }
  });
});
