/** Owns a TLS terminator on loopback: what an operator puts before a controller that is reached by `wss://`. */
import { once } from "node:events";
import { type AddressInfo, connect } from "node:net";
import { createServer, type TLSSocket } from "node:tls";

export interface TlsFront extends AsyncDisposable {
  readonly port: number;
  /** TLS handshakes that came to their end. */
  readonly accepted: number;
}

/** Passes on byte for byte to `targetPort` what comes under this key and certificate. */
export async function tlsFront(
  identity: { readonly key: string; readonly cert: string },
  targetPort: number,
): Promise<TlsFront> {
  const open = new Set<TLSSocket>();
  let accepted = 0;
  const server = createServer(identity, (client) => {
    accepted += 1;
    open.add(client);
    const target = connect(targetPort, "127.0.0.1");
    client.pipe(target).pipe(client);
    for (const [one, other] of [
      [client, target],
      [target, client],
    ] as const) {
      one.on("error", () => {});
      one.on("close", () => other.destroy());
    }
    client.on("close", () => open.delete(client));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    get accepted() {
      return accepted;
    },
    async [Symbol.asyncDispose]() {
      for (const client of open) client.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
