/**
 * Owns the standard streams of a native process: pipes, their descriptors on both sides. What the process
 * writes is handed on as it comes; it is fed its input, followed by end of file. They are opened before
 * there is a process, so that none of that work stands in the way of its start.
 */
import { closeSync } from "node:fs";
import { Socket } from "node:net";
import { closeStreams, openStandardPipes, type StandardStreams } from "./native/spawn.ts";
import type { OutputSink, OutputStream } from "./spawner.ts";

/** Where all processes' output arrives: a chunk is handed on before the next one is read. */
const READ_BUFFER = Buffer.allocUnsafeSlow(65_536);

export class ProcessStreams {
  /** What the process is to have: this side's until `handedOver`. */
  readonly child: StandardStreams;
  readonly #stdin: number;
  readonly #sockets: Socket[] = [];
  #sink: OutputSink | undefined;
  #fed = false;
  #handedOver = false;

  /** Throws a `SystemError` when no pipe can be had. */
  constructor() {
    const { child, parent } = openStandardPipes();
    this.child = child;
    this.#stdin = parent.stdin;
    this.#listen("stdout", parent.stdout);
    this.#listen("stderr", parent.stderr);
  }

  /** Who hears the process, and what it is to read. To be called before it starts, once. */
  attach(sink: OutputSink, input: Uint8Array): void {
    this.#sink = sink;
    this.#fed = true;
    this.#feed(input);
  }

  /** The process has its ends, or never will: closes them on this side. */
  handedOver(): void {
    if (this.#handedOver) return;
    this.#handedOver = true;
    closeStreams(this.child);
  }

  /** Closes what is still open; the sink hears no more. Idempotent. */
  close(): void {
    this.handedOver();
    if (!this.#fed) closeSync(this.#stdin);
    this.#fed = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  #listen(stream: OutputStream, fd: number): void {
    const socket = new Socket({
      fd,
      readable: true,
      writable: false,
      onread: {
        buffer: READ_BUFFER,
        callback: (length, buffer) => {
          this.#sink?.chunk(stream, buffer.subarray(0, length));
          return true;
        },
      },
    });
    socket.on("end", () => this.#sink?.end(stream));
    // Without an end the stream counts as unfinished, which is what a failed read leaves it.
    socket.on("error", () => {});
    socket.resume();
    this.#sockets.push(socket);
  }

  #feed(input: Uint8Array): void {
    if (input.length === 0) {
      closeSync(this.#stdin);
      return;
    }
    const socket = new Socket({ fd: this.#stdin, readable: false, writable: true });
    // EPIPE: the process does not read its input, which is its own affair.
    socket.on("error", () => {});
    socket.end(input);
    this.#sockets.push(socket);
  }
}
