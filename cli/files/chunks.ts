/**
 * Owns the reading of a file on a node from one offset to its end: in chunks, some of them ahead, over cuts of
 * the connection.
 *
 * 1. What comes out is one revision: size and modification time are the same at the end as they were at the
 *    beginning, or it fails as `revision_conflict`.
 */
import { LemonError } from "../../protocol/errors.ts";
import { FILE_BOUNDS } from "../../protocol/files.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import type { Link } from "./link.ts";

export type RemoteStat = ResultOf<"node.fs.stat">;

/** Read ahead: hides the way there and back, and holds few bytes. */
const AHEAD = 4;

export async function* readChunks(
  link: Link,
  nodeId: string,
  file: RemoteStat,
  fromOffset: number,
): AsyncGenerator<Buffer, void, undefined> {
  const { path, size } = file;
  const ahead: Promise<Buffer>[] = [];
  let asked = fromOffset;
  try {
    for (;;) {
      while (ahead.length < AHEAD && asked < size) {
        const offset = asked;
        const length = Math.min(FILE_BOUNDS.chunkBytes, size - offset);
        asked += length;
        const chunk = readWhole(link, { nodeId, path, offset, length });
        // Its failure is told when its turn comes; until then it is nobody's.
        chunk.catch(() => {});
        ahead.push(chunk);
      }
      const next = ahead.shift();
      if (next === undefined) break;
      yield await next;
    }
  } finally {
    await Promise.allSettled(ahead);
  }
  const after = await link.again((client) => client.call("node.fs.stat", { nodeId, path }));
  if (after.size !== size || after.mtimeMs !== file.mtimeMs) throw changed();
}

/** A chunk may come shorter than it was asked for. */
async function readWhole(
  link: Link,
  {
    nodeId,
    path,
    offset,
    length,
  }: { nodeId: string; path: string; offset: number; length: number },
): Promise<Buffer> {
  const parts: Buffer[] = [];
  let read = 0;
  while (read < length) {
    const params = { nodeId, path, offset: offset + read, length: length - read };
    const { dataBase64 } = await link.again((client) => client.call("node.fs.read", params));
    const bytes = Buffer.from(dataBase64, "base64");
    if (bytes.length === 0) throw changed();
    parts.push(bytes);
    read += bytes.length;
  }
  return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
}

function changed(): LemonError {
  return new LemonError("revision_conflict", { message: "The file changed while it was read" });
}

/** What is to be read. Throws what asking for it throws: what is no regular file, the node refuses to read. */
export async function regularFile(link: Link, nodeId: string, path: string): Promise<RemoteStat> {
  const stat = await link.again((client) => client.call("node.fs.stat", { nodeId, path }));
  if (stat.type !== "regular") await link.client.call("node.fs.read", { nodeId, path, length: 1 });
  return stat;
}
