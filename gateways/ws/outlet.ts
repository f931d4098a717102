/**
 * Owns the handing of frames to a socket: what is sent within one turn of the event loop leaves with one
 * system call, which is most of what an answer costs.
 */
import type { Socket } from "node:net";
import type { WebSocket } from "ws";
import type { Outlet } from "./send-queue.ts";

export class WsOutlet implements Outlet {
  readonly #ws: WebSocket;
  readonly #socket: Socket;
  #corked = false;

  /** `socket` is the one below `ws`. */
  constructor(ws: WebSocket, socket: Socket) {
    this.#ws = ws;
    this.#socket = socket;
  }

  get bufferedAmount(): number {
    return this.#ws.bufferedAmount;
  }

  send(data: string | Buffer, fin: boolean, flushed: () => void): void {
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      process.nextTick(this.#uncork);
    }
    this.#ws.send(data, { binary: false, fin }, flushed);
  }

  readonly #uncork = (): void => {
    this.#corked = false;
    this.#socket.uncork();
  };
}
