/**
 * Owns the order of what one connection is told, and how much of it may wait.
 *
 * 1. All requests that come in one piece are parsed before the first is answered, and each is some kilobytes
 *    here, though it was some bytes there: who sends them by the thousand and reads nothing would be given ten
 *    megabytes for every 64 KiB. So few may wait.
 * 2. What comes behind requests and is none itself (an upgrade, bytes that can not be read) has its turn when
 *    they have been answered: nobody takes its answer for another's.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** RFC 9112 9.3.2 lets a client send more before its answer is there; none in use does. */
const WAITING_MAX = 16;

interface Line {
  /** In the order they came; those that have left are forgotten when the next one comes. */
  readonly waiting: ServerResponse[];
  isEnding: boolean;
}

export class Pipelines {
  readonly #lines = new WeakMap<Duplex, Line>();

  /** Whether it may be answered. If not, its connection is cut, with all that waits on it. */
  admits({ socket }: Pick<IncomingMessage, "socket">, response: ServerResponse): boolean {
    if (socket.destroyed) return false;
    const { waiting } = this.#lineOf(socket);
    // They leave in the order they came.
    while (waiting[0] !== undefined && !isWaiting(waiting[0])) waiting.shift();
    if (waiting.length >= WAITING_MAX) {
      socket.destroy();
      return false;
    }
    waiting.push(response);
    return true;
  }

  /** The answer to the last request of a connection, which may have left; undefined before the first. */
  latest(socket: Duplex): ServerResponse | undefined {
    return this.#lines.get(socket)?.waiting.at(-1);
  }

  /**
   * Calls back, at once or later, when the requests before it have been answered; never once the connection is
   * gone. Nothing comes behind it: a second call for the same connection does nothing.
   */
  inTurn(socket: Duplex, then: () => void): void {
    const line = this.#lineOf(socket);
    if (line.isEnding) return;
    line.isEnding = true;
    // A request that is not whole gets no other answer: it is what can not be read.
    const before = line.waiting.findLast((each) => isWaiting(each) && each.req.complete);
    if (before === undefined) then();
    else {
      before.once("close", () => {
        if (!socket.destroyed) then();
      });
    }
  }

  #lineOf(socket: Duplex): Line {
    let line = this.#lines.get(socket);
    if (line === undefined) {
      line = { waiting: [], isEnding: false };
      this.#lines.set(socket, line);
    }
    return line;
  }
}

function isWaiting(response: ServerResponse): boolean {
  return !response.writableFinished;
}
