/**
 * Owns what may pass for the beginning of a leaf's websocket, in both directions (RFC 6455, section 4).
 * Pure: heads in, heads out.
 *
 * 1. Nothing that a client wrote is passed on but its key, in a head of our own making.
 * 2. Nothing that the hub wrote is passed on but its consent, proven by the key.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";

/** NATS appends this to a leaf remote's URL. */
const LEAF_PATH = "/leafnode";

const KEY = /^[A-Za-z0-9+/]{22}==$/;
const ACCEPT_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** A request with one of these means to send a body, or something before the hub has consented. */
const BODY_HEADERS = ["content-length", "transfer-encoding", "expect", "trailer", "te"];
const CONNECTION_TOKENS = new Set(["upgrade", "keep-alive"]);

export type Verdict =
  | { readonly ok: true; readonly key: string }
  | { readonly ok: false; readonly status: 400 | 404 | 405 | 426 };

/** Judges an upgrade request. `head` is what came behind it without waiting for an answer. */
export function judge(request: IncomingMessage, head: Buffer): Verdict {
  if (request.url !== LEAF_PATH) return { ok: false, status: 404 };
  if (request.method !== "GET") return { ok: false, status: 405 };
  if (request.httpVersion !== "1.1" || head.length > 0) return { ok: false, status: 400 };
  const headers = byName(request.rawHeaders);
  if (BODY_HEADERS.some((name) => headers.has(name))) return { ok: false, status: 400 };
  if (only(headers, "host") === null) return { ok: false, status: 400 };
  if (only(headers, "upgrade")?.toLowerCase() !== "websocket") return { ok: false, status: 426 };
  const connection = only(headers, "connection")?.toLowerCase().split(",") ?? [];
  const tokens = connection.map((token) => token.trim());
  if (!tokens.includes("upgrade") || !tokens.every((token) => CONNECTION_TOKENS.has(token))) {
    return { ok: false, status: 400 };
  }
  if (only(headers, "sec-websocket-version") !== "13") return { ok: false, status: 426 };
  const key = only(headers, "sec-websocket-key");
  return key !== null && KEY.test(key) ? { ok: true, key } : { ok: false, status: 400 };
}

/** The request that the hub gets. */
export function requestHead(host: string, key: string): string {
  return head([
    `GET ${LEAF_PATH} HTTP/1.1`,
    `Host: ${host}`,
    "Upgrade: websocket",
    "Connection: Upgrade",
    `Sec-WebSocket-Key: ${key}`,
    "Sec-WebSocket-Version: 13",
  ]);
}

/** Whether the hub's response head (up to its empty line) consents to this very key, and to nothing that was not asked for. */
export function consents(responseHead: string, key: string): boolean {
  const [status = "", ...lines] = responseHead.split("\r\n");
  if (!/^HTTP\/1\.1 101( |$)/.test(status)) return false;
  const headers = byName(
    lines.flatMap((line) => {
      const colon = line.indexOf(":");
      return colon < 1 ? [] : [line.slice(0, colon), line.slice(colon + 1).trim()];
    }),
  );
  return (
    only(headers, "upgrade")?.toLowerCase() === "websocket" &&
    only(headers, "connection")?.toLowerCase() === "upgrade" &&
    only(headers, "sec-websocket-accept") === acceptOf(key) &&
    !headers.has("sec-websocket-extensions") &&
    !headers.has("sec-websocket-protocol")
  );
}

/** The consent that the client gets. */
export function responseHead(key: string): string {
  return head([
    "HTTP/1.1 101 Switching Protocols",
    "Upgrade: websocket",
    "Connection: Upgrade",
    `Sec-WebSocket-Accept: ${acceptOf(key)}`,
  ]);
}

/** A link that is not to be: what was asked (4xx), or how the hub took it (5xx). */
export type RefusalStatus = 400 | 404 | 405 | 426 | 502 | 503 | 504;

function acceptOf(key: string): string {
  return createHash("sha1").update(`${key}${ACCEPT_GUID}`).digest("base64");
}

function head(lines: readonly string[]): string {
  return `${lines.join("\r\n")}\r\n\r\n`;
}

/** Every value of each header, by lower-case name; from `name, value, name, value, …`. */
function byName(raw: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const headers = new Map<string, string[]>();
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] ?? "").toLowerCase();
    const values = headers.get(name);
    const value = raw[at + 1] ?? "";
    if (values === undefined) headers.set(name, [value]);
    else values.push(value);
  }
  return headers;
}

/** The one value of a header; null when there is none, an empty one, or more than one. */
function only(headers: ReadonlyMap<string, readonly string[]>, name: string): string | null {
  const values = headers.get(name);
  return values?.length === 1 ? values[0] || null : null;
}
