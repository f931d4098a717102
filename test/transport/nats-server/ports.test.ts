import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { anyTaken, choosePorts, comeFree } from "../../../transport/nats-server/ports.ts";
import { FakeClock, settle } from "../../support/fake-clock.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

describe("the ports of a nats-server", () => {
  let folder: TempFolder;
  let file: string;
  beforeEach(() => {
    folder = tempFolder();
    file = join(folder.path, "ports.json");
  });
  afterEach(() => folder[Symbol.dispose]());

  it("are three, and remembered", async () => {
    const ports = await choosePorts(file);
    expect(new Set(Object.values(ports)).size).to.equal(3);
    expect(JSON.parse(readFileSync(file, "utf8"))).to.deep.equal(ports);
    expect(await choosePorts(file)).to.deep.equal(ports);
    expect(await anyTaken(ports)).to.equal(false);
  });

  it("are chosen without a wait for whoever connects meanwhile and stays", async () => {
    const { client: port, leaf } = await choosePorts(file);
    // One of them is another now, so the rest is held while that is remembered.
    const thief = createServer().listen(leaf, "127.0.0.1");
    await once(thief, "listening");
    const clients: Socket[] = [];
    let connecting = true;
    const knock = (): void => {
      if (!connecting) return;
      const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      client.on("error", () => undefined);
      clients.push(client);
      setImmediate(knock);
    };
    knock();
    expect((await choosePorts(file)).client).to.equal(port);
    connecting = false;
    for (const client of clients) client.destroy();
    thief.close();
  });

  describe("one of which somebody took", () => {
    it("are waited for, 5 s at most", async () => {
      const ports = await choosePorts(file);
      const thief = createServer().listen(ports.leaf, "127.0.0.1");
      await once(thief, "listening");
      const clock = new FakeClock();
      let free: boolean | null = null;
      const wait = async (): Promise<void> => {
        free = null;
        free = await comeFree(ports, { clock });
      };
      let waiting = wait();
      for (let waitedMs = 0; waitedMs < 5_000; waitedMs += 250) {
        while (clock.pending === 0) await settle();
        expect(free).to.equal(null);
        await clock.advance(250);
      }
      await waiting;
      expect(free).to.equal(false);

      waiting = wait();
      thief.close();
      await once(thief, "close");
      while (clock.pending === 0) await settle();
      await clock.advance(250);
      await waiting;
      expect(free).to.equal(true);
    });

    it("are waited for no longer than somebody wants them", async () => {
      const ports = await choosePorts(file);
      const signal = AbortSignal.abort();
      expect(await comeFree(ports, { clock: new FakeClock(), signal })).to.equal(false);
    });
  });
});
