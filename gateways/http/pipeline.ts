/**
 * Owns how many requests of one connection wait for their answers. All that come in one piece are parsed
 * before the first is answered, and each is some kilobytes here, though it was some bytes there: who sends
 * them by the thousand and reads nothing would be given ten megabytes for every 64 KiB.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** RFC 9112 9.3.2 lets a client send more before its answer is there; none in use does. */
const WAITING_MAX = 16;

export class Pipelines {
  readonly #waiting = new WeakMap<Socket, number>();

  /** Whether it may be answered. If not, its connection is cut, with all that waits on it. */
  admits({ socket }: Pick<IncomingMessage, "socket">, response: ServerResponse): boolean {
    if (socket.destroyed) return false;
    const waiting = this.#waiting.get(socket) ?? 0;
    if (waiting >= WAITING_MAX) {
      socket.destroy();
      return false;
    }
    this.#waiting.set(socket, waiting + 1);
    response.once("close", () => {
      this.#waiting.set(socket, (this.#waiting.get(socket) ?? 1) - 1);
    });
    return true;
  }
}
