/**
 * Owns the floor of the benchmark of files, a server in a process of its own: a chunk is read, becomes base64
 * and one WebSocket message; or it comes as one, and is written and synced. Nothing is checked, and there is
 * no node. `file-floor.ts <folder>`.
 */
import {
  closeSync,
  fdatasyncSync,
  fstatSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { WebSocketServer } from "ws";

interface Request {
  readonly id: string;
  readonly method: string;
  readonly params: {
    readonly path: string;
    readonly offset: number;
    readonly length: number;
    readonly dataBase64: string;
  };
}

function serve(folder: string): void {
  const answer = ({ method, params }: Request): object => {
    const path = join(folder, params.path);
    if (method === "node.fs.stat") return statSync(path);
    if (method === "node.fs.read") return read(path, params.offset, params.length);
    return write(path, params.offset, Buffer.from(params.dataBase64, "base64"));
  };
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
  server.on("connection", (socket) => {
    socket.on("message", (data) => {
      const request: Request = JSON.parse(String(data));
      const payload = answer(request);
      socket.send(JSON.stringify({ type: "res", id: request.id, ok: true, payload }));
    });
  });
  server.on("listening", () => process.send?.((server.address() as AddressInfo).port));
  process.once("disconnect", () => process.exit());
}

function read(path: string, offset: number, length: number): object {
  const fd = openSync(path, "r");
  const bytes = Buffer.allocUnsafe(length);
  const got = readSync(fd, bytes, 0, length, offset);
  closeSync(fd);
  return { path, offset, length: got, dataBase64: bytes.toString("base64", 0, got) };
}

function write(path: string, offset: number, bytes: Buffer): object {
  const fd = openSync(path, offset === 0 ? "w" : "r+");
  writeSync(fd, bytes, 0, bytes.length, offset);
  fdatasyncSync(fd);
  const { size, mtimeMs } = fstatSync(fd);
  closeSync(fd);
  return { path, offset, bytesWritten: bytes.length, size, mtimeMs: Math.trunc(mtimeMs) };
}

serve(process.argv[2] ?? ".");
