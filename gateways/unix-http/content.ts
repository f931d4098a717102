/**
 * Owns the bytes of files on their way over the socket: no file is ever held whole, and a transfer may take as
 * long as it moves.
 *
 * 1. The slower end sets the pace: what is read has been taken before more is read.
 * 2. One that has not moved for `idleMs` is cut.
 * 3. A file that becomes shorter while it is sent breaks the connection: its length was promised.
 * 4. However a download ends, and whenever its reader goes, the file is closed.
 */

import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Download } from "../../host/machine/files.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";

export interface TransferLimits {
  /** How long a transfer may stand still, in ms. */
  readonly idleMs: number;
}

/**
 * The request's bytes as they come; an early end of the loop leaves the request, and so the answer, intact. Rejects
 * with `bad-request` when the caller is gone before the end.
 */
export function receive(
  request: IncomingMessage,
  { idleMs }: TransferLimits,
): AsyncIterable<Uint8Array> {
  cutWhenIdle(request, idleMs);
  return bytesOf(request);
}

async function* bytesOf(request: IncomingMessage): AsyncGenerator<Uint8Array> {
  try {
    yield* request.iterator({ destroyOnReturn: false });
  } catch (cause) {
    throw new HostAgentError("bad-request", { cause });
  }
}

/** Sends the head, and the bytes unless only the head was asked for. Never rejects once the head is out. */
export async function sendDownload(
  response: ServerResponse,
  { sizeBytes, chunks, close }: Download,
  { idleMs }: TransferLimits,
  headOnly: boolean,
): Promise<void> {
  try {
    // It went while the file was being opened.
    if (response.destroyed) return;
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    response.writeHead(200, {
      "Content-Type": "application/octet-stream",
      "Content-Length": sizeBytes,
    });
    if (!headOnly) {
      cutWhenIdle(response, idleMs);
      for await (const chunk of chunks) {
        if (response.destroyed) return;
        if (!response.write(chunk)) await once(response, "drain", { signal: gone.signal });
      }
    }
    response.end();
  } catch {
    response.destroy();
  } finally {
    await close();
  }
}

/** Node's own clock counts, from the last byte in either direction; another request begins without it. */
function cutWhenIdle(message: IncomingMessage | ServerResponse, idleMs: number): void {
  const { socket } = message;
  if (socket === null) return;
  const cut = (): void => void socket.destroy();
  socket.setTimeout(idleMs);
  socket.on("timeout", cut);
  message.once("close", () => {
    socket.off("timeout", cut);
    socket.setTimeout(0);
  });
}
