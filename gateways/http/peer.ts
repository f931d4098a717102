/**
 * Owns what can be told of a peer before it says anything: its address, and whether it is a program on
 * this very machine that nobody stands behind (rulings: "the loopback opt-in is void for a request with
 * `Forwarded`/`X-Forwarded-*` or a foreign `Origin`").
 */
import type { IncomingMessage } from "node:http";
import { isLoopbackAddress } from "../../host/ip-address.ts";
import { isLoopbackOrigin, isOurs, originsOf } from "./origin.ts";
import type { TrustedProxies } from "./proxies.ts";

export interface Peer {
  /** The address of the socket's other end, or of the caller that a trusted proxy there names. */
  readonly remoteAddress: string;
  /**
   * True for a loopback socket without any sign of a proxy and without a foreign `Origin`. Any program on this
   * machine may serve pages here, its users' as much as a package's that was only tried out: so a page is
   * foreign unless the controller itself served it, or the operator named its very origin.
   */
  readonly directLoopback: boolean;
}

export interface Surroundings {
  readonly proxies: TrustedProxies;
  /** As `parseOrigin` gives them. */
  readonly allowedOrigins: ReadonlySet<string>;
  /** Whether the caller speaks TLS, with us or with a trusted proxy. */
  readonly secure: boolean;
}

/** Null for a request whose proxy headers contradict each other: nobody can say who sent it. */
export function peerOf(
  request: IncomingMessage,
  { proxies, allowedOrigins, secure }: Surroundings,
): Peer | null {
  const socketAddress = request.socket.remoteAddress ?? "";
  const remoteAddress = proxies.callerOf(socketAddress, request.headers);
  if (remoteAddress === null) return null;
  const directLoopback =
    isLoopbackAddress(socketAddress) &&
    // What comes from there may be anybody's, also when the proxy forgot its headers.
    !proxies.includes(socketAddress) &&
    !isProxied(request) &&
    originsOf(request).every(
      (given) => isLoopbackOrigin(given) && isOurs(given, request, secure, allowedOrigins),
    );
  return { remoteAddress, directLoopback };
}

/** What proxies add. A header too many costs a convenience, one too few the machine. */
const PROXY_HEADER =
  /^(?:x-)?forwarded|^(?:via|x-real-ip|x-client-ip|x-cluster-client-ip|true-client-ip|cf-connecting-ip|fastly-client-ip)$/;

function isProxied(request: IncomingMessage): boolean {
  return Object.keys(request.headers).some((name) => PROXY_HEADER.test(name));
}
