import { join } from "node:path";
import { expect } from "chai";
import { takeServiceManager } from "../../host/service-manager.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";
import { receiveDatagrams } from "../support/unix-sockets.ts";

const linux = process.platform === "linux" ? describe : () => {};

linux("a service manager", () => {
  let folder: TempFolder;
  beforeEach(() => {
    folder = tempFolder();
  });
  afterEach(() => folder[Symbol.dispose]());

  for (const kind of ["a path", "an abstract name"] as const) {
    it(`hears that we are ready, live and stop, at ${kind}`, async () => {
      const path = join(folder.path, "notify");
      const address = kind === "a path" ? path : `@${path}`;
      using received = receiveDatagrams(address);
      const clock = new FakeClock();
      const manager = takeServiceManager({ NOTIFY_SOCKET: address, WATCHDOG_USEC: "10000000" });
      manager.ready("serving");
      expect(received.take()).to.deep.equal(["READY=1\nSTATUS=serving"]);
      const stop = manager.beat(clock);
      expect(received.take()).to.deep.equal(["WATCHDOG=1"]);
      await clock.advance(4_999);
      expect(received.take()).to.deep.equal([]);
      await clock.advance(1);
      expect(received.take()).to.deep.equal(["WATCHDOG=1"]);
      stop();
      await clock.advance(60_000);
      manager.stopping();
      expect(received.take()).to.deep.equal(["STOPPING=1"]);
    });
  }

  it("is told nothing where there is none, or where it does not listen", () => {
    for (const environment of [{}, { NOTIFY_SOCKET: join(folder.path, "nobody") }]) {
      const manager = takeServiceManager(environment);
      expect(() => {
        manager.ready("serving");
        manager.beat(new FakeClock())();
        manager.stopping();
      }).not.to.throw();
    }
  });

  it("hands sockets over to the process it names alone, and leaves nothing to children", () => {
    const environment = { LISTEN_PID: "42", LISTEN_FDS: "2", NOTIFY_SOCKET: "/x", HOME: "/" };
    expect(takeServiceManager({ ...environment }, 42).listenFds).to.deep.equal([3, 4]);
    expect(takeServiceManager({ ...environment }, 43).listenFds).to.deep.equal([]);
    const none = takeServiceManager({ LISTEN_PID: "42", LISTEN_FDS: "x" }, 42);
    expect(none.listenFds).to.deep.equal([]);
    const own: Record<string, string> = { ...environment };
    takeServiceManager(own, 42);
    expect(own).to.deep.equal({ HOME: "/" });
  });

  it("asks for no beat of a process that it does not watch", async () => {
    const clock = new FakeClock();
    const NOTIFY_SOCKET = join(folder.path, "notify");
    using received = receiveDatagrams(NOTIFY_SOCKET);
    const watched = { NOTIFY_SOCKET, WATCHDOG_USEC: "1000", WATCHDOG_PID: "1" };
    takeServiceManager({ ...watched }, 42).beat(clock);
    await clock.advance(10);
    expect(received.take()).to.deep.equal([]);
    takeServiceManager({ ...watched, WATCHDOG_PID: "42" }, 42).beat(clock)();
    expect(received.take()).to.deep.equal(["WATCHDOG=1"]);
  });
});
