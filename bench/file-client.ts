/**
 * Owns the client that the benchmark of files measures with, the same for us and for the floor: it reads of an
 * answer no more than its head, so that what a client does with a chunk is in no figure.
 * Run as a program it is eight readers in a process of their own: `file-client.ts <target as JSON>`.
 */
import { once } from "node:events";
import { type RawData, WebSocket } from "ws";

export interface Target {
  readonly url: string;
  /** Null: it wants no `connect`. */
  readonly token: string | null;
  readonly nodeId: string;
}

export const CHUNK_BYTES = 1_048_576;
/** Of the file that is read, which the system has in memory. */
export const FILE_CHUNKS = 16;
export const READERS = 8;

const HEAD_BYTES = 128;

export class FileClient {
  readonly #socket: WebSocket;
  readonly #nodeId: string;
  readonly #waiting = new Map<string, (answer: Buffer) => void>();
  #serial = 0;
  #offset = 0;

  private constructor(socket: WebSocket, nodeId: string) {
    this.#socket = socket;
    this.#nodeId = nodeId;
    socket.on("message", (data) => this.#heard(asBuffer(data)));
  }

  static async open({ url, token, nodeId }: Target): Promise<FileClient> {
    const socket = new WebSocket(url, { perMessageDeflate: false });
    await once(socket, "open");
    if (token !== null) {
      const hello = once(socket, "message");
      const params = { auth: { token } };
      socket.send(JSON.stringify({ type: "req", id: "c", method: "connect", params }));
      if (!String((await hello)[0]).includes("hello-ok")) throw new Error("no hello-ok");
    }
    return new FileClient(socket, nodeId);
  }

  /** The next chunk of `big`. */
  async read(): Promise<void> {
    const offset = this.#offset;
    this.#offset = (offset + CHUNK_BYTES) % (FILE_CHUNKS * CHUNK_BYTES);
    const answer = await this.#call(
      "node.fs.read",
      `"path":"big","offset":${offset},"length":${CHUNK_BYTES}`,
    );
    if (answer.length < (CHUNK_BYTES * 4) / 3) throw new Error("a chunk came short");
  }

  /** In ms. */
  async stat(): Promise<number> {
    const fromMs = performance.now();
    await this.#call("node.fs.stat", `"path":"big"`);
    return performance.now() - fromMs;
  }

  /** What the file's revision is after it; `data` is base64. */
  async write(path: string, offset: number, data: string, revision: number): Promise<number> {
    const where = `"path":"${path}","offset":${offset},"truncate":false`;
    const answer = await this.#call(
      "node.fs.write",
      `${where},"expectedModifiedAtMs":${revision},"dataBase64":"${data}"`,
    );
    return JSON.parse(answer.toString()).payload.mtimeMs;
  }

  close(): void {
    this.#socket.terminate();
  }

  #call(method: string, params: string): Promise<Buffer> {
    this.#serial += 1;
    const id = String(this.#serial);
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    this.#waiting.set(id, (answer) => {
      if (head(answer).includes('"ok":true')) resolve(answer);
      else reject(new Error(answer.toString()));
    });
    const all = `"nodeId":"${this.#nodeId}",${params}`;
    this.#socket.send(`{"type":"req","id":"${id}","method":"${method}","params":{${all}}}`);
    return promise;
  }

  #heard(answer: Buffer): void {
    const id = /"id":"(\d+)"/.exec(head(answer))?.[1] ?? "";
    const settle = this.#waiting.get(id);
    this.#waiting.delete(id);
    settle?.(answer);
  }
}

function head(answer: Buffer): string {
  return answer.toString("latin1", 0, HEAD_BYTES);
}

function asBuffer(data: RawData): Buffer {
  return Buffer.isBuffer(data) ? data : Buffer.alloc(0);
}

/** Reads until its parent lets go of it; says when each reader has read once. */
async function readOn(target: Target): Promise<void> {
  process.once("disconnect", () => process.exit());
  // Its parent may have gone before anybody listened.
  if (!process.connected) process.exit();
  const readers = await Promise.all(Array.from({ length: READERS }, () => FileClient.open(target)));
  await Promise.all(readers.map((reader) => reader.read()));
  process.send?.("reading");
  let chunks = 0;
  process.on("message", () => process.send?.(chunks));
  for (const reader of readers) {
    void (async () => {
      for (;;) {
        await reader.read();
        chunks += 1;
      }
    })();
  }
}

if (import.meta.main) await readOn(JSON.parse(process.argv[2] ?? ""));
