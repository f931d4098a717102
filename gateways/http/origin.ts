/**
 * Owns which pages may open a socket here. A browser lets the page of any site do so, and tells in `Origin`
 * whose page it was (RFC 6455 10.2); whoever is no browser sends none, and is judged by its token alone.
 *
 * What this stops: a page that somebody inside the network visits would be a client inside the network. No
 * token goes along by itself (it stands in `connect`, in no cookie), so it is not an operator; but it could
 * try tokens, use a leaked one from an address that is trusted, take up connections, and reach whatever a
 * mistake leaves open before `connect`. By binding its own name anew to our address (DNS rebinding) it even
 * comes under an `Origin` equal to our `Host`. So that equality counts only where no foreign name can stand:
 * under TLS, whose certificate names us, or with an address or `localhost` as the name.
 */
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { isLoopbackAddress } from "../../host/ip-address.ts";

/**
 * `scheme://host[:port]` in its one spelling, without the port that the scheme implies; null for anything
 * else, `null` and `*` included (RFC 6454 6.2).
 */
export function parseOrigin(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || url.host === "" || /[*\s]/.test(text)) return null;
  const bare = url.username === "" && url.password === "" && url.search === "" && url.hash === "";
  // A trailing slash is what a browser's address bar adds.
  if (!bare || (url.pathname !== "/" && url.pathname !== "")) return null;
  return `${url.protocol}//${url.host.toLowerCase()}`;
}

/** What a request says of the page it comes from; version 8 of the protocol, which `ws` still speaks, has a name of its own for it. */
export function originsOf({ headers }: IncomingMessage): readonly string[] {
  return [headers.origin, headers["sec-websocket-origin"]]
    .flat()
    .filter((origin) => origin !== undefined);
}

/** Whether a page was served by a machine to itself, under a name that no other can have. */
export function isLoopbackOrigin(origin: string): boolean {
  if (!URL.canParse(origin)) return false;
  const { protocol, hostname } = new URL(origin);
  return (protocol === "http:" || protocol === "https:") && isLoopbackName(hostname);
}

export interface Arrival {
  /** The caller's. */
  readonly remoteAddress: string;
  /** Whether the caller speaks TLS, with us or with a trusted proxy. */
  readonly secure: boolean;
}

/** Whether the page, if it is one, may be served. `allowed` holds origins as `parseOrigin` gives them. */
export function mayEnter(
  request: IncomingMessage,
  { remoteAddress, secure }: Arrival,
  allowed: ReadonlySet<string>,
): boolean {
  const atHome = isLoopbackAddress(remoteAddress);
  return originsOf(request).every(
    (given) => (atHome && isLoopbackOrigin(given)) || isOurs(given, request, secure, allowed),
  );
}

/** Whether a page is of the controller's own origin, or of one that the operator named. */
export function isOurs(
  given: string,
  request: IncomingMessage,
  secure: boolean,
  allowed: ReadonlySet<string>,
): boolean {
  const origin = parseOrigin(given);
  return origin !== null && (allowed.has(origin) || origin === ownOrigin(request, secure));
}

function ownOrigin({ headers }: IncomingMessage, secure: boolean): string | null {
  const own = parseOrigin(`${secure ? "https" : "http"}://${headers.host ?? ""}`);
  if (own === null || secure) return own;
  const name = new URL(own).hostname;
  return isLoopbackName(name) || isIP(unbracketed(name)) !== 0 ? own : null;
}

function isLoopbackName(name: string): boolean {
  return name === "localhost" || isLoopbackAddress(unbracketed(name));
}

function unbracketed(name: string): string {
  return name.replace(/^\[(.*)\]$/, "$1");
}
