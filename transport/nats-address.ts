/**
 * Owns the reading of where somebody else's NATS system answers, as people write it: one URL, or several
 * separated by commas. Credentials never stand in a URL: it is shown in listings and logs.
 */
import { LemonError } from "../protocol/errors.ts";

/** A server that may be asked first; the others of its cluster it names itself. */
export interface NatsAddress {
  /** A name or an address; an IPv6 one without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Where a controller connects. */
export interface NatsSystem {
  readonly servers: readonly NatsAddress[];
  /** Refuse a server that offers no TLS: one of the URLs said `tls://`. */
  readonly tls: boolean;
  /** Whether what crosses the network may be readable there: TLS is not demanded, nor is it this very machine. */
  readonly readable: boolean;
}

const DEFAULT_PORT = 4_222;
const MAX_URLS = 16;

/** Reads `nats://host[:port]` and `tls://host[:port]`. `name` is the flag, for the error. Errors: `invalid_request`. */
export function natsSystem(name: string, text: string): NatsSystem {
  const urls = parse(name, text, ["nats:", "tls:"], "nats://host:port or tls://host:port");
  refusePaths(name, urls);
  return {
    servers: urls.map(({ hostname, port }) => ({
      host: hostname.replace(/^\[(.*)\]$/, "$1"),
      port: port === "" ? DEFAULT_PORT : Number(port),
    })),
    tls: urls.some(isEncrypted),
    readable: !urls.some(isEncrypted) && !urls.every(isLoopback),
  };
}

/** Where leafs connect: all of them by websocket, or none. */
export interface LeafUrls {
  readonly urls: readonly string[];
  /** As of a `NatsSystem`, of any of them. */
  readonly readable: boolean;
}

/** Reads `tls://`, `nats://` (a leafnode listener), `wss://`, `ws://` (a websocket one). Errors: `invalid_request`. */
export function leafUrls(name: string, text: string): LeafUrls {
  const schemes = ["tls:", "nats:", "wss:", "ws:"];
  const urls = parse(name, text, schemes, "tls://, nats://, wss:// or ws:// URLs");
  const plain = urls.filter(({ protocol }) => !protocol.startsWith("ws"));
  if (plain.length !== 0 && plain.length !== urls.length) {
    throw refused(name, "must not mix websocket URLs with others");
  }
  refusePaths(name, plain);
  return {
    urls: urls.map(leafUrl),
    readable: urls.some((url) => !isEncrypted(url) && !isLoopback(url)),
  };
}

/** NATS has other default ports than the web, so the port is always written. */
function leafUrl({ protocol, hostname, port, pathname }: URL): string {
  const known = port === "" ? DEFAULT_LEAF_PORTS[protocol] : port;
  return `${protocol}//${hostname}:${known}${pathname.replace(/\/+$/, "")}`;
}

const DEFAULT_LEAF_PORTS: Readonly<Record<string, string>> = {
  "tls:": "7422",
  "nats:": "7422",
  "wss:": "443",
  "ws:": "80",
};

function parse(name: string, text: string, schemes: readonly string[], wanted: string): URL[] {
  const parts = text.split(",").map((part) => part.trim());
  if (parts.length > MAX_URLS) throw refused(name, `takes at most ${MAX_URLS} URLs`);
  return parts.map((part) => {
    const url = URL.parse(part);
    if (
      url === null ||
      !schemes.includes(url.protocol) ||
      url.hostname === "" ||
      url.port === "0"
    ) {
      throw refused(name, `wants ${wanted}, several separated by commas`);
    }
    if (url.username !== "" || url.password !== "") {
      throw refused(name, "must not hold credentials; they have flags of their own");
    }
    if (url.search !== "" || url.hash !== "") {
      throw refused(name, "must have neither a query nor a fragment");
    }
    return url;
  });
}

/** Only a websocket has a path. */
function refusePaths(name: string, urls: readonly URL[]): void {
  if (urls.every(({ pathname }) => pathname === "" || pathname === "/")) return;
  throw refused(name, "must not hold a path");
}

function isEncrypted({ protocol }: URL): boolean {
  return protocol === "tls:" || protocol === "wss:";
}

/** 127.0.0.0/8, `::1` and the name that stands for them. */
function isLoopback({ hostname }: URL): boolean {
  return /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/i.test(hostname);
}

function refused(name: string, why: string): LemonError {
  return new LemonError("invalid_request", { message: `${name} ${why}` });
}
