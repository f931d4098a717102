/**
 * Owns a peer that speaks NATS's leaf protocol by hand, over the websocket that leafs use: it holds a
 * node's credentials and none of the good manners of a real server. What the hub lets it do is all that
 * stands between one machine and the others.
 *
 * Protocol: the server says INFO with a nonce; CONNECT proves the key; then LS+ and LS- state interest,
 * LMSG and HMSG carry messages (nats-server, server/leafnode.go and parser.go).
 */
import type { KeyPair } from "@nats-io/nkeys";
import { WebSocket } from "ws";

export interface RawMessage {
  readonly subject: string;
  readonly reply: string | null;
  readonly payload: string;
}

export interface RawLeaf {
  /** Messages that the hub sent, in order. */
  readonly messages: readonly RawMessage[];
  /** `-ERR` lines that the hub sent. */
  readonly errors: readonly string[];
  /** Subjects that the hub asked for (LS+), queue and all. */
  readonly interest: readonly string[];
  /** Resolves when the hub, or we, closed the line. */
  readonly closed: Promise<void>;
  readonly open: boolean;
  subscribe(subject: string, queue?: string): void;
  publish(subject: string, payload?: string | Uint8Array, reply?: string): void;
  /** With a NATS header block. */
  publishWithHeaders(subject: string, headers: string, payload: string): void;
  /** Any bytes at all. */
  send(bytes: string | Uint8Array): void;
  /** Resolves when the hub has handled everything sent before; rejects when it closes instead. */
  settled(): Promise<void>;
  /** Bytes that the line has not taken yet. */
  readonly unsent: number;
  close(): void;
}

export interface RawLeafOptions {
  /** The hub's websocket listener, or a proxy before it: `ws://host:port`. */
  readonly url: string;
  readonly jwt: string;
  readonly key: KeyPair;
  readonly serverName: string;
  /** Members that CONNECT claims beside the usual ones. */
  readonly claims?: Readonly<Record<string, unknown>>;
}

/** Resolves once the hub accepted it (a PONG after CONNECT); rejects with the hub's `-ERR` otherwise. */
export async function openRawLeaf(options: RawLeafOptions): Promise<RawLeaf> {
  const leaf = new Leaf(options);
  await leaf.settled();
  return leaf;
}

class Leaf implements RawLeaf {
  readonly messages: RawMessage[] = [];
  readonly errors: string[] = [];
  readonly interest: string[] = [];
  readonly closed: Promise<void>;
  readonly #options: RawLeafOptions;
  readonly #socket: WebSocket;
  readonly #ready = Promise.withResolvers<void>();
  readonly #pongs: PromiseWithResolvers<void>[] = [];
  #received = Buffer.alloc(0);
  #open = true;

  constructor(options: RawLeafOptions) {
    this.#options = options;
    this.#socket = new WebSocket(`${options.url}/leafnode`, { perMessageDeflate: false });
    this.closed = new Promise((resolve) => {
      this.#socket.on("close", () => {
        this.#open = false;
        const reason = new Error(this.errors.join("; ") || "closed by the hub");
        this.#ready.promise.catch(() => undefined);
        this.#ready.reject(reason);
        for (const pong of this.#pongs.splice(0)) pong.reject(reason);
        resolve();
      });
    });
    this.#socket.on("error", () => undefined);
    this.#socket.on("message", (data) => this.#take(data as Buffer));
  }

  get open(): boolean {
    return this.#open;
  }

  get unsent(): number {
    return this.#socket.bufferedAmount;
  }

  subscribe(subject: string, queue?: string): void {
    this.send(queue === undefined ? `LS+ ${subject}\r\n` : `LS+ ${subject} ${queue} 1\r\n`);
  }

  publish(subject: string, payload: string | Uint8Array = "", reply?: string): void {
    const bytes = Buffer.from(payload);
    const head = reply === undefined ? subject : `${subject} ${reply}`;
    const line = Buffer.from(`LMSG ${head} ${bytes.length}\r\n`);
    this.send(Buffer.concat([line, bytes, Buffer.from("\r\n")]));
  }

  publishWithHeaders(subject: string, headers: string, payload: string): void {
    const block = `NATS/1.0${headers}\r\n\r\n`;
    const size = Buffer.byteLength(block);
    this.send(
      `HMSG ${subject} ${size} ${size + Buffer.byteLength(payload)}\r\n${block}${payload}\r\n`,
    );
  }

  send(bytes: string | Uint8Array): void {
    if (this.#open) this.#socket.send(Buffer.from(bytes), () => undefined);
  }

  async settled(): Promise<void> {
    await this.#ready.promise;
    if (!this.#open) throw new Error(this.errors.join("; ") || "closed by the hub");
    const pong = Promise.withResolvers<void>();
    this.#pongs.push(pong);
    this.send("PING\r\n");
    await pong.promise;
  }

  close(): void {
    this.#socket.terminate();
  }

  #take(bytes: Buffer): void {
    this.#received = Buffer.concat([this.#received, bytes]);
    for (;;) {
      const end = this.#received.indexOf("\r\n");
      if (end < 0) return;
      const line = this.#received.toString("utf8", 0, end);
      const size = /^(?:LMSG|HMSG) /.test(line) ? Number(line.split(" ").at(-1)) : -1;
      const total = end + 2 + (size < 0 ? 0 : size + 2);
      if (this.#received.length < total) return;
      const payload = size < 0 ? "" : this.#received.toString("utf8", end + 2, end + 2 + size);
      this.#received = this.#received.subarray(total);
      this.#handle(line, payload);
    }
  }

  #handle(line: string, payload: string): void {
    const [operation = "", ...rest] = line.split(" ");
    switch (operation) {
      case "INFO":
        // Only the first is a greeting; later ones bring news of the hub.
        if (line.includes('"nonce"') && this.interest.length === 0) this.#connect(rest.join(" "));
        break;
      case "PING":
        this.send("PONG\r\n");
        break;
      case "PONG":
        this.#pongs.shift()?.resolve();
        break;
      case "-ERR":
        this.errors.push(rest.join(" "));
        break;
      case "LS+":
        this.interest.push(rest.join(" "));
        break;
      case "LMSG":
      case "HMSG": {
        const names = rest.slice(0, operation === "LMSG" ? -1 : -2);
        this.messages.push({ subject: names[0] ?? "", reply: names[1] ?? null, payload });
        break;
      }
      default:
        break;
    }
  }

  #connect(info: string): void {
    const { nonce } = JSON.parse(info) as { readonly nonce: string };
    const { jwt, key, serverName, claims } = this.#options;
    const signature = Buffer.from(key.sign(Buffer.from(nonce))).toString("base64url");
    const connect = {
      jwt,
      sig: signature,
      tls_required: false,
      server_id: key.getPublicKey().replace(/^U/, "N"),
      name: serverName,
      // A real leaf without a cluster names itself here; the hub then tells a second one of its name.
      cluster: serverName,
      remote_account: "LINK",
      headers: true,
      jetstream: false,
      compression: "off",
      ...claims,
    };
    this.send(`CONNECT ${JSON.stringify(connect)}\r\n`);
    this.#ready.resolve();
  }
}
