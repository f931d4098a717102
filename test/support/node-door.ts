/**
 * Owns a controller's door with its fleet behind it for tests: real sockets, real sessions, real actors on a
 * bent clock; the store and the hub are in memory.
 */
import { once } from "node:events";
import type { ClientOptions } from "ws";
import { DEVICE_DOCUMENTS, openDevices } from "../../actors/device/devices.ts";
import type { DeviceRecord } from "../../actors/device/record.ts";
import { type Invocations, openInvocations } from "../../actors/invocation/invocations.ts";
import { SOCKET_PING_EVERY_MS } from "../../actors/node/sockets.ts";
import { Attempts } from "../../actors/session/attempts.ts";
import {
  authenticator,
  firstOf,
  TOKEN_ATTEMPTS,
  withTokenAttempts,
} from "../../actors/session/authenticate.ts";
import type { NodeId } from "../../protocol/ids.ts";
import type { InputOf } from "../../protocol/methods.ts";
import { settle } from "./fake-clock.ts";
import { OPERATOR_TOKEN, type TestGateway, testGateway } from "./gateway.ts";
import { MemoryDocuments } from "./memory-documents.ts";
import { MemoryLink } from "./memory-link.ts";
import { NodesRoom } from "./nodes-room.ts";
import { Party } from "./party.ts";
import { testSystem } from "./supervision.ts";

/** A node that was paired over the door, and the token its connections offer. */
export interface DoorNode {
  readonly nodeId: NodeId;
  readonly token: string;
}

export class NodeDoor {
  readonly room: NodesRoom;
  readonly gateway: TestGateway;
  readonly invocations: Invocations;

  private constructor(room: NodesRoom, gateway: TestGateway, invocations: Invocations) {
    this.room = room;
    this.gateway = gateway;
    this.invocations = invocations;
  }

  static async open(
    deviceDocuments = new MemoryDocuments<DeviceRecord>(DEVICE_DOCUMENTS.parse),
  ): Promise<NodeDoor> {
    let gateway: TestGateway | null = null;
    const system = testSystem();
    const devices = await openDevices({
      parent: system.root,
      documents: deviceDocuments,
      clock: system.clock,
      endSessions: (deviceId, close) => gateway?.roster.endDevice(deviceId, close),
      connections: () => gateway?.roster.ofDevices() ?? new Map(),
      publish: (event, payload) => gateway?.broadcast.publish(event, payload),
    });
    const room = await NodesRoom.open(undefined, new MemoryLink(), system, {
      redeemDevice: devices.redeem,
      endSessions: (nodeId, olderThan, close) => gateway?.roster.endNode(nodeId, olderThan, close),
      publish: ({ event, payload }) => gateway?.broadcast.publish(event, payload, ["nodes"]),
    });
    const invocations = await openInvocations({
      parent: room.system.root,
      socketOf: (selector) => room.nodes.socketOf(selector),
      broadcast: {
        tell: (to, event, payload) => gateway?.broadcast.tell(to, event, payload) ?? false,
      },
    });
    const sessionTokens = firstOf(devices.sessionTokens, room.nodes.sessionTokens);
    gateway = await testGateway({
      authenticate: withTokenAttempts(
        authenticator({
          operatorToken: OPERATOR_TOKEN,
          sessionTokens,
          allowUnauthenticatedLoopback: true,
        }),
        new Attempts(room.clock, TOKEN_ATTEMPTS),
        { operatorToken: OPERATOR_TOKEN },
      ),
      clock: room.clock,
      announces: true,
      handlers: { ...room.nodes.methods, ...devices.methods, ...invocations.methods },
      onNode: room.nodes.arrived,
    });
    return new NodeDoor(room, gateway, invocations);
  }

  get clock() {
    return this.room.clock;
  }

  /** An operator that is told only what is addressed to it, and `topics`. */
  async operator(...topics: string[]): Promise<Party> {
    const party = await Party.connect(this.gateway.url);
    await party.call("events.unsubscribe");
    if (topics.length > 0) await party.call("events.subscribe", { topics });
    return party;
  }

  async pair(name: string, more: Partial<InputOf<"node.pair.request">> = {}): Promise<DoorNode> {
    const operator = await this.operator();
    const asked = { nodeType: "browser", nodeName: name, ...more };
    const { pairingId } = await operator.call("node.pair.request", asked);
    const { nodeId, challengeToken } = await operator.call("node.pair.approve", { pairingId });
    const { token } = await operator.call("connect.challenge", { challenge: challengeToken });
    await operator.client.close();
    return { nodeId, token };
  }

  /** One of the node's connections. `{ autoPong: false }`: it answers no ping. */
  connect({ token }: DoorNode, options: ClientOptions = {}): Promise<Party> {
    return Party.connect(this.gateway.url, { auth: { token } }, options);
  }

  /** Lets the party be pinged once, and its pong arrive; the party itself says nothing. */
  async ping(party: Party, witness: Party): Promise<void> {
    const pinged = once(party.client.socket, "ping");
    await this.clock.advance(SOCKET_PING_EVERY_MS);
    await pinged;
    // The pong has been sent by now; what another connection sends after it is read after it.
    await witness.answer("health");
  }

  /** Waits until a connection's end has been heard here. */
  async left(before: number): Promise<void> {
    while (this.gateway.roster.counts().active >= before)
      await new Promise((go) => setImmediate(go));
    await settle();
  }

  async close(): Promise<void> {
    await this.gateway.close();
    await this.room.close();
  }
}
