/**
 * Owns the upgrade of `/ws`: who is let in at all, and how its socket is set up (control-plane-wire.md
 * 1.1, 1.7). Who the peer is, and what it may do, is its session's to say.
 *
 * 1. No compression, no subprotocol, no extension: a peer can not make us spend more than it sends.
 * 2. A frame up to twice `policy.maxPayload` is read, so that it can be refused with the socket kept;
 *    beyond that the socket is closed with 1009 before the frame is read.
 */
import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import type { Logger } from "pino";
import { type WebSocket, WebSocketServer } from "ws";
import type { Connection } from "../../actors/session/connection.ts";
import type { Clock } from "../../host/clock.ts";
import { POLICY, type Policy } from "../../protocol/frames.ts";
import type { ConnectionId } from "../../protocol/ids.ts";
import { occasionally } from "../../supervision/occasionally.ts";
import { refusal, sendOnSocket } from "../http/answer.ts";
import { FULL } from "../http/fixed-answers.ts";
import type { Peer } from "../http/peer.ts";
import type { UpgradeHandler } from "../http/server.ts";
import { Backlog } from "./backlog.ts";
import { type ConnectionSetting, type ConnectionTimes, WsConnection } from "./connection.ts";
import { Strangers } from "./strangers.ts";

export interface WsGatewayOptions {
  /** Gives an open socket to a session of its own. */
  readonly open: (connection: Connection) => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly policy?: Policy;
  readonly limits?: Partial<WsLimits>;
}

export interface WsLimits extends ConnectionTimes {
  /** Sockets at once. */
  readonly connections: number;
  /** Unfinished frames of all peers that have not been admitted yet, together. */
  readonly strangerBytes: number;
  /**
   * What waits for readers, over all connections. As base64 it is what the links to the nodes carry at once
   * (`transport/rpc/flow.ts`), so that no burst of answers makes one reader alone too slow.
   */
  readonly backlogBytes: number;
}

const LIMITS: WsLimits = {
  pingMs: 20_000,
  idleMs: 60_000,
  stallMs: 10_000,
  closeMs: 5_000,
  connections: 10_240,
  strangerBytes: 67_108_864,
  backlogBytes: 134_217_728,
};

/** How much of an oversized frame is read for the sake of keeping its socket, as a multiple of `maxPayload`. */
const READ_BEYOND_PAYLOAD = 2;
/** Small enough to bound what a frame sent a few bytes at a time costs beside its bytes. */
const MAX_CHUNKS = 32_768;
/** A request of `maxPayload` in parts of 256 bytes, which is less than any client's. */
const MAX_FRAGMENTS = 16_384;

export interface WsGateway {
  readonly upgrade: UpgradeHandler;
  /** Sockets open now. */
  readonly connections: number;
}

export function wsGateway(options: WsGatewayOptions): WsGateway {
  return new Gateway(options);
}

class Gateway implements WsGateway {
  readonly #options: WsGatewayOptions;
  readonly #limits: WsLimits;
  readonly #setting: ConnectionSetting;
  readonly #strangers: Strangers;
  readonly #server: WebSocketServer;
  readonly #full: () => void;
  #connections = 0;

  constructor(options: WsGatewayOptions) {
    this.#options = options;
    const limits = { ...LIMITS, ...options.limits };
    const policy = options.policy ?? POLICY;
    this.#limits = limits;
    this.#setting = {
      clock: options.clock,
      policy,
      times: limits,
      backlog: new Backlog(limits.backlogBytes),
      onSlow: occasionally(options.clock, (times) => {
        options.log.info({ times }, "slow readers of /ws were cut");
      }),
    };
    this.#strangers = new Strangers(limits.strangerBytes);
    this.#server = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      handleProtocols: () => false,
      autoPong: false,
      maxPayload: policy.maxPayload * READ_BEYOND_PAYLOAD,
      maxBufferedChunks: MAX_CHUNKS,
      maxFragments: MAX_FRAGMENTS,
    });
    this.#full = occasionally(options.clock, (times) => {
      options.log.warn({ times }, "connection limit of /ws reached, peers were turned away");
    });
    this.#server.on("wsClientError", (error, socket) => {
      sendOnSocket(socket, refusal(400, "INVALID_REQUEST", error.message, SPOKEN_VERSIONS));
    });
  }

  get connections(): number {
    return this.#connections;
  }

  readonly upgrade: UpgradeHandler = (request, socket, head, peer) => {
    if (this.#connections >= this.#limits.connections) {
      this.#full();
      sendOnSocket(socket, FULL);
      return;
    }
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      this.#opened(ws, peer, request.socket);
    });
  };

  /** A function of its own: the listener below lives as long as the socket, and would keep the request alive. */
  #opened(ws: WebSocket, peer: Peer, socket: Socket): void {
    this.#connections += 1;
    ws.once("close", () => {
      this.#connections -= 1;
    });
    const stranger = this.#strangers.meter();
    const { open } = this.#options;
    open(new WsConnection(connectionId(), peer, ws, socket, stranger, this.#setting));
  }
}

const SPOKEN_VERSIONS = { "Sec-WebSocket-Version": "13" };

function connectionId(): ConnectionId {
  return randomUUID() as ConnectionId;
}
