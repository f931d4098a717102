/** Owns a caller and the nodes it calls for tests of RPC: one plain server, a bent clock, a node of its own for each use. */
import type { NatsConnection } from "@nats-io/transport-node";
import { expect } from "chai";
import { systemClock } from "../../host/clock.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import { createRpcCaller, type RpcCaller } from "../../transport/rpc/caller.ts";
import type { CallOptions } from "../../transport/rpc/flight.ts";
import type { FlowLimits } from "../../transport/rpc/flow.ts";
import { type RpcHandler, type RpcServer, serveRpc } from "../../transport/rpc/server.ts";
import { FakeClock } from "./fake-clock.ts";
import { logLines } from "./log-lines.ts";
import type { TestServer } from "./nats.ts";
import { plainServer } from "./plain-nats.ts";

export const MAX_PAYLOAD = 65_536;
export const GENERATION = 7;
export const NORMAL_CALL: Omit<CallOptions, "method" | "params"> = {
  generation: GENERATION,
  deadlineMs: 30_000,
  mutation: true,
};

export class CalledNodes {
  readonly nats: TestServer;
  readonly controller: NatsConnection;
  readonly worker: NatsConnection;
  /** Nodes whose answers came when nobody waited for them any more. */
  readonly strays: NodeKey[] = [];
  readonly served: RpcServer[] = [];
  caller: RpcCaller;
  clock = new FakeClock();
  #nodes = 0;

  private constructor(nats: TestServer, controller: NatsConnection, worker: NatsConnection) {
    this.nats = nats;
    this.controller = controller;
    this.worker = worker;
    this.caller = this.#newCaller();
  }

  static async open(): Promise<CalledNodes> {
    const nats = await plainServer(MAX_PAYLOAD);
    return new CalledNodes(nats, await nats.connect({}), await nats.connect({}));
  }

  async close(): Promise<void> {
    await this.nats[Symbol.asyncDispose]();
  }

  /** Before each test. */
  begin(): void {
    this.caller.stop();
    this.clock = new FakeClock();
    this.strays.length = 0;
    this.caller = this.#newCaller();
  }

  /** After each test. */
  async end(): Promise<void> {
    this.caller.stop();
    await Promise.all(this.served.splice(0).map((server) => server.stop()));
    expect(this.clock.pending, "timers left").to.equal(0);
  }

  /** In place of the caller so far. */
  limit(limits: Partial<FlowLimits>): void {
    this.caller.stop();
    this.caller = createRpcCaller({ connection: this.controller, clock: this.clock, limits });
  }

  /** A node of its own for each use: no test can hear another's. */
  newNode(): NodeKey {
    this.#nodes += 1;
    return `N${this.#nodes}` as NodeKey;
  }

  async serve(
    handlers: Readonly<Record<string, RpcHandler>>,
    options: { node?: NodeKey; log?: ReturnType<typeof logLines> } = {},
  ): Promise<NodeKey> {
    const node = options.node ?? this.newNode();
    this.served.push(
      serveRpc({
        connection: this.worker,
        nodeKey: node,
        generation: GENERATION,
        handlers,
        clock: systemClock,
        log: (options.log ?? logLines()).log,
      }),
    );
    await this.worker.flush();
    return node;
  }

  call(node: NodeKey, method: string, params: unknown = null, extra = {}): Promise<unknown> {
    return this.caller.call(node, { ...NORMAL_CALL, method, params, ...extra });
  }

  #newCaller(): RpcCaller {
    const onStray = (node: NodeKey) => this.strays.push(node);
    return createRpcCaller({ connection: this.controller, clock: this.clock, onStray });
  }
}
