/** Owns the door of the client: a URL that is one, and a client that is connected. */
import { LemonError } from "../protocol/errors.ts";
import type { Client, ConnectOptions } from "./client.ts";
import { ReconnectingClient } from "./reconnecting-client.ts";

/**
 * Connects. Resolves with a connected client or rejects with a `ConnectError`. With `reconnect` the
 * first connection is tried for as long as the later ones: until `signal` aborts or it is refused.
 */
export async function connect(options: ConnectOptions): Promise<Client> {
  const protocol = URL.parse(options.url)?.protocol;
  if (protocol !== "ws:" && protocol !== "wss:")
    throw new LemonError("invalid_params", {
      message: "The controller's URL must be ws:// or wss://",
    });
  const client = new ReconnectingClient(options);
  await client.start();
  return client;
}
