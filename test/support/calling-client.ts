/** Owns a client and the control plane that it calls, for tests of calls: each is started as a test wants it. */
import { expect } from "chai";
import { CallError, type Client, type ConnectOptions, connect } from "../../client/index.ts";
import { socketOpener } from "../../client/node/socket.ts";
import { FakeControlPlane } from "./fake-control-plane.ts";
import { NODE_ID } from "./node-rows.ts";
import { refusalOf } from "./refusal.ts";

export const RUN = {
  nodeId: NODE_ID,
  processId: "t:1",
  cwd: ".",
  argv: ["true"],
  stdinBase64: "",
  timeoutMs: 1_000,
  maxOutputBytes: 1,
};

/** Resolves with what a call was refused with, or what became uncertain of it. */
export async function callError(attempt: () => unknown): Promise<CallError> {
  const error = await refusalOf(attempt);
  if (!(error instanceof CallError)) throw error;
  return error;
}

export class CallingClient {
  readonly peer: FakeControlPlane;
  readonly client: Client;

  private constructor(peer: FakeControlPlane, client: Client) {
    this.peer = peer;
    this.client = client;
  }

  static async start(
    options: Parameters<typeof FakeControlPlane.start>[0] = {},
    more: Partial<ConnectOptions> = {},
  ): Promise<CallingClient> {
    const peer = await FakeControlPlane.start(options);
    const openSocket = socketOpener();
    const client = await connect({ url: peer.url, clientId: "test", openSocket, ...more });
    return new CallingClient(peer, client);
  }

  /** Every frame of the client must have been in order. */
  async close(): Promise<void> {
    this.client.close();
    await this.peer.stop();
    expect(this.peer.breaches).to.deep.equal([]);
  }
}
