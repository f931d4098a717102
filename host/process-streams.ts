/**
 * Owns this process's ends of a native process's standard streams: hands on what it writes as it comes,
 * and feeds it its input, followed by end of file. All of it may be set up before there is a process,
 * so that none of that work stands in the way of its start.
 */
import { closeSync } from "node:fs";
import { Socket } from "node:net";
import type { StandardStreams } from "./native/spawn.ts";
import type { OutputSink, OutputStream } from "./spawner.ts";

/** Where all processes' output arrives: a chunk is handed on before the next one is read. */
const READ_BUFFER = Buffer.allocUnsafeSlow(65_536);

export class ProcessStreams {
  readonly #sink: OutputSink;
  readonly #sockets: Socket[] = [];

  /** Takes over the descriptors `ends`. */
  constructor(ends: StandardStreams, input: Uint8Array, sink: OutputSink) {
    this.#sink = sink;
    this.#listen("stdout", ends.stdout);
    this.#listen("stderr", ends.stderr);
    this.#feed(ends.stdin, input);
  }

  /** Closes what is still open; the sink hears no more. Idempotent. */
  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #listen(stream: OutputStream, fd: number): void {
    const sink = this.#sink;
    const socket = new Socket({
      fd,
      readable: true,
      writable: false,
      onread: {
        buffer: READ_BUFFER,
        callback: (length, buffer) => {
          sink.chunk(stream, buffer.subarray(0, length));
          return true;
        },
      },
    });
    socket.on("end", () => sink.end(stream));
    // Without an end the stream counts as unfinished, which is what a failed read leaves it.
    socket.on("error", () => {});
    socket.resume();
    this.#sockets.push(socket);
  }

  #feed(fd: number, input: Uint8Array): void {
    if (input.length === 0) {
      closeSync(fd);
      return;
    }
    const socket = new Socket({ fd, readable: false, writable: true });
    // EPIPE: the process does not read its input, which is its own affair.
    socket.on("error", () => {});
    socket.end(input);
    this.#sockets.push(socket);
  }
}
