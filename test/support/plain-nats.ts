/** Owns a nats-server without accounts, for rooms that need nothing but subjects. */
import { quote } from "../../transport/nats-server/config.ts";
import { startServer, type TestServer } from "./nats.ts";

/** No users, no JetStream; `max_payload` as given, so that a bound can be met with small messages. */
export function plainServer(maxPayloadBytes = 1_048_576): Promise<TestServer> {
  return startServer((places) =>
    [
      'server_name: "plain"',
      `listen: ${quote(`127.0.0.1:${places.ports.client}`)}`,
      `ports_file_dir: ${quote(places.portsDirectory)}`,
      `max_payload: ${maxPayloadBytes}`,
    ].join("\n"),
  );
}
