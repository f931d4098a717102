/**
 * Owns a TCP proxy on loopback that harms what passes through it: swallows what the server says,
 * holds back what the client says, cuts every connection.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface TcpProxy extends AsyncDisposable {
  readonly url: string;
  /** From now on nothing that the server says arrives, on connections that stand. */
  swallowReplies(): void;
  /** From now on nothing that the client says arrives, on connections that stand; `release` sends it on. */
  holdRequests(): void;
  release(): void;
  /**
   * Cuts the client's side of every connection. What was held back stays held, and `release` still
   * sends it: as a network does that loses a connection and not its packets.
   */
  cut(): void;
  /** Cuts every connection in both directions once so many more bytes have passed; resolves then. */
  cutAfter(bytes: number): Promise<void>;
  /** While refusing, new connections are cut at once. */
  refuse(refusing: boolean): void;
  /** Resolves when the client has said something more, on any connection. */
  heard(): Promise<void>;
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  swallowing: boolean;
  holding: boolean;
  held: Buffer[];
}

/** `tap` sees everything that comes from either side. */
export async function tcpProxy(
  targetPort: number,
  tap: (bytes: Buffer) => void = () => {},
): Promise<TcpProxy> {
  const pairs = new Set<Pair>();
  const listeners: (() => void)[] = [];
  let refusing = false;
  /** The next cut, and how much may pass until then. */
  let due: { leftBytes: number; readonly cut: () => void } | null = null;
  const passed = (bytes: Buffer): void => {
    tap(bytes);
    if (due === null) return;
    due.leftBytes -= bytes.length;
    if (due.leftBytes > 0) return;
    const { cut } = due;
    due = null;
    for (const { client, server } of pairs) {
      client.destroy();
      server.destroy();
    }
    cut();
  };

  const listener = createServer((client) => {
    if (refusing) {
      client.destroy();
      return;
    }
    const server = connect(targetPort, "127.0.0.1");
    const pair: Pair = { client, server, swallowing: false, holding: false, held: [] };
    pairs.add(pair);
    client.on("data", (bytes: Buffer) => {
      if (pair.holding) pair.held.push(bytes);
      else server.write(bytes);
      passed(bytes);
      for (const heard of listeners.splice(0)) heard();
    });
    server.on("data", (bytes: Buffer) => {
      if (!pair.swallowing && !client.destroyed) client.write(bytes);
      passed(bytes);
    });
    client.on("error", () => {});
    server.on("error", () => {});
    client.on("close", () => {
      if (!pair.holding) server.destroy();
    });
    server.on("close", () => {
      client.destroy();
      pairs.delete(pair);
    });
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;

  return {
    url: `nats://127.0.0.1:${port}`,
    swallowReplies() {
      for (const pair of pairs) pair.swallowing = true;
    },
    holdRequests() {
      for (const pair of pairs) pair.holding = true;
    },
    release() {
      for (const pair of pairs) {
        for (const bytes of pair.held.splice(0)) pair.server.write(bytes);
        pair.holding = false;
        if (pair.client.destroyed) pair.server.end();
      }
    },
    cut() {
      for (const pair of pairs) pair.client.destroy();
    },
    cutAfter: (leftBytes) =>
      new Promise((cut) => {
        due = { leftBytes, cut };
      }),
    refuse(now) {
      refusing = now;
    },
    heard: () => new Promise((resolve) => listeners.push(resolve)),
    async [Symbol.asyncDispose]() {
      for (const pair of pairs) {
        pair.client.destroy();
        pair.server.destroy();
      }
      listener.close();
      await once(listener, "close");
    },
  };
}
