/** Owns one client of a door that serves the handlers a test supplies, as an operator or with a session token. */
import type { Identity, MethodHandlers } from "../../actors/session/handler.ts";
import type { NodeId } from "../../protocol/ids.ts";
import type { FakeClock } from "./fake-clock.ts";
import { type TestGateway, testGateway } from "./gateway.ts";
import { type Frame, operator, WsClient } from "./ws-client.ts";

const NODE: Identity = {
  role: "node",
  clientId: "n",
  node: { nodeId: "n" as NodeId, sessionGeneration: 1 },
};
const DEVICE: Identity = { role: "device", clientId: "d", node: null };

/** An answer to `node.rename`. */
export const RENAMED = { nodeId: "n", name: "x", renamed: true, summary: {} } as const;

/** The session tokens `node` and `device` are good. */
export async function within(
  handlers: Partial<MethodHandlers>,
  check: (client: WsClient, gateway: TestGateway) => Promise<void>,
  options: { params?: object; clock?: FakeClock } = {},
): Promise<void> {
  const gateway = await testGateway({
    handlers,
    sessionTokens: {
      identify: async (token) => (token === "node" ? NODE : token === "device" ? DEVICE : null),
    },
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  });
  try {
    const client = await WsClient.connect(gateway.url, options.params ?? operator());
    await check(client, gateway);
  } finally {
    await gateway.close();
  }
}

/** Of a refusal: the wire's and the table's. */
export const codes = (frame: Frame) => [frame.error?.code, frame.error?.details?.["code"]];
