/** Owns files of a node for tests of the command line: in memory, with revisions, and cuts of the connection. */
import { LemonError } from "../../protocol/errors.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { type FakeControlPlane, type PeerConnection, SILENCE } from "./fake-control-plane.ts";

interface File {
  bytes: Buffer;
  mtimeMs: number;
}

type Stat = Omit<ResultOf<"node.fs.stat">, "path">;

/** What a call meets: a cut before anything was done, or when it is done and its answer is not sent; a refusal. */
type Cut = "before" | "after" | LemonError;

export class FakeFiles {
  readonly files = new Map<string, File>();
  readonly directories = new Set(["."]);
  /** Is called after each write. */
  whenWritten: () => void = () => undefined;
  readonly #cuts = new Map<string, (Cut | null)[]>();
  #clockMs = 1_796_000_000_000;
  #token: string | null = null;

  constructor(peer: FakeControlPlane) {
    peer.on("node.fs.stat", ({ path }, connection) =>
      this.#met("stat", connection, () => ({ path, ...this.#stat(path) })),
    );
    peer.on("node.fs.list", ({ path }, connection) =>
      this.#met("list", connection, () => ({
        path,
        entries: this.#below(path).map((inside) => ({
          name: inside.slice(inside.lastIndexOf("/") + 1),
          ...this.#stat(inside),
        })),
        limit: 500 as const,
        truncated: false,
      })),
    );
    peer.on("node.fs.read", ({ path, offset, length }, connection) =>
      this.#met("read", connection, () => {
        const { bytes } = this.#file(path);
        const chunk = bytes.subarray(offset, offset + length);
        return {
          path,
          dataBase64: chunk.toString("base64"),
          offset,
          length: chunk.length,
          size: bytes.length,
          mime: "text/plain",
          eof: offset + chunk.length >= bytes.length,
        };
      }),
    );
    peer.on("node.fs.write", (params, connection) =>
      this.#met("write", connection, () => this.#write(params)),
    );
    peer.on("node.fs.mkdir", ({ path }, connection) =>
      this.#met("mkdir", connection, () => {
        this.directories.add(path);
        return { path, created: true as const };
      }),
    );
    peer.on("node.fs.move", ({ path, destination, expectedModifiedAtMs, overwrite }, connection) =>
      this.#met("move", connection, () => {
        const file = this.#file(path);
        if (file.mtimeMs !== expectedModifiedAtMs) throw new LemonError("revision_conflict");
        if (this.files.has(destination) && !overwrite) throw new LemonError("already_exists");
        this.files.delete(path);
        this.files.set(destination, file);
        return { path, destination, moved: true as const };
      }),
    );
    peer.on("node.fs.delete.preview", ({ path }, connection) =>
      this.#met("preview", connection, () => {
        this.#token = `token of ${path}`;
        return {
          path: `/canonical/${path}`,
          stat: this.#stat(path),
          childCount: 0,
          childrenDigest: "",
          candidateCount: 3,
          confirmationToken: this.#token,
          expiresAtMs: 0,
        };
      }),
    );
    peer.on("node.fs.delete", ({ path, confirm, confirmationToken }, connection) =>
      this.#met("delete", connection, () => {
        if (confirmationToken !== this.#token) throw new LemonError("invalid_confirmation_token");
        if (confirm !== path) throw new LemonError("invalid_confirmation");
        this.#token = null;
        this.files.delete(path);
        return { path: `/canonical/${path}`, deleted: true as const };
      }),
    );
  }

  put(path: string, bytes: Buffer): void {
    this.#clockMs += 1;
    this.files.set(path, { bytes, mtimeMs: this.#clockMs });
  }

  bytes(path: string): Buffer | null {
    return this.files.get(path)?.bytes ?? null;
  }

  /** The next calls of a method meet these, in order; null meets nothing. */
  meet(method: string, ...cuts: readonly (Cut | null)[]): void {
    this.#cuts.set(method, [...cuts]);
  }

  #met<T>(method: string, connection: PeerConnection, work: () => T): T | typeof SILENCE {
    const cut = this.#cuts.get(method)?.shift() ?? null;
    if (cut instanceof LemonError) throw cut;
    if (cut === "before") {
      connection.drop();
      return SILENCE;
    }
    const result = work();
    if (cut === null) return result;
    connection.drop();
    return SILENCE;
  }

  #below(path: string): string[] {
    const prefix = path === "." ? "" : `${path}/`;
    return [...this.files.keys(), ...this.directories].filter(
      (inside) =>
        inside !== "." && inside.startsWith(prefix) && !inside.slice(prefix.length).includes("/"),
    );
  }

  #file(path: string): File {
    if (this.directories.has(path)) throw new LemonError("is_directory");
    const file = this.files.get(path);
    if (file === undefined) throw new LemonError("not_found");
    return file;
  }

  #stat(path: string): Stat {
    const common = { mime: "text/plain", readable: true, writable: true };
    if (this.directories.has(path)) {
      return { ...common, type: "directory", size: 4_096, mtimeMs: 1, mode: 0o40755 };
    }
    const { bytes, mtimeMs } = this.#file(path);
    return { ...common, type: "regular", size: bytes.length, mtimeMs, mode: 0o100644 };
  }

  #write(params: {
    readonly path: string;
    readonly dataBase64: string;
    readonly offset: number;
    readonly expectedModifiedAtMs?: number | undefined;
  }): ResultOf<"node.fs.write"> {
    const { path, offset, expectedModifiedAtMs } = params;
    const before = this.files.get(path);
    if ((before?.mtimeMs ?? 0) !== expectedModifiedAtMs) throw new LemonError("revision_conflict");
    const bytes = Buffer.from(params.dataBase64, "base64");
    const prefix = before?.bytes.subarray(0, offset) ?? Buffer.alloc(0);
    this.put(path, Buffer.concat([prefix, bytes]));
    this.whenWritten();
    const { mtimeMs } = this.#file(path);
    return { path, offset, bytesWritten: bytes.length, size: offset + bytes.length, mtimeMs };
  }
}
