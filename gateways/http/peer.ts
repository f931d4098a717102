/**
 * Owns what can be told of a peer before it says anything: its address, and whether it is a program on
 * this very machine that nobody stands behind (rulings: "the loopback opt-in is void for a request with
 * `Forwarded`/`X-Forwarded-*` or a foreign `Origin`").
 */
import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";

export interface Peer {
  /** The address of the socket's other end; headers do not change it. */
  readonly remoteAddress: string;
  /** True for a loopback socket without any sign of a proxy and without a foreign `Origin`. */
  readonly directLoopback: boolean;
}

export function peerOf(request: IncomingMessage): Peer {
  const remoteAddress = request.socket.remoteAddress ?? "";
  return {
    remoteAddress,
    directLoopback:
      isLoopbackAddress(remoteAddress) && !isProxied(request) && !isFromForeignPage(request),
  };
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** 127/8, ::1, and the first mapped into IPv6. */
export function isLoopbackAddress(address: string): boolean {
  const family = isIP(address);
  return family !== 0 && LOOPBACK.check(address, family === 6 ? "ipv6" : "ipv4");
}

/** What proxies add. A header too many costs a convenience, one too few the machine. */
const PROXY_HEADER =
  /^(?:x-)?forwarded|^(?:via|x-real-ip|x-client-ip|x-cluster-client-ip|true-client-ip|cf-connecting-ip|fastly-client-ip)$/;

function isProxied(request: IncomingMessage): boolean {
  return Object.keys(request.headers).some((name) => PROXY_HEADER.test(name));
}

/**
 * A page of another site can open a socket to this machine, and by rebinding its name even under an
 * `Origin` equal to our `Host`; so only pages served by this machine under a loopback name are not foreign.
 */
function isFromForeignPage(request: IncomingMessage): boolean {
  // Version 8 of the protocol, which `ws` still speaks, has a name of its own for it.
  const origins = [request.headers.origin, request.headers["sec-websocket-origin"]];
  return origins.flat().some((origin) => origin !== undefined && !isLoopbackOrigin(origin));
}

function isLoopbackOrigin(origin: string): boolean {
  if (!URL.canParse(origin)) return false;
  const { protocol, hostname } = new URL(origin);
  if (protocol !== "http:" && protocol !== "https:") return false;
  const name = hostname.replace(/^\[(.*)\]$/, "$1");
  return name === "localhost" || isLoopbackAddress(name);
}
