/**
 * Owns whom the port believes about somebody else: which proxies may name the caller they pass on, and
 * what their `X-Forwarded-For`, `Forwarded` and `X-Forwarded-Proto` say.
 *
 * 1. Headers count only on a connection from a configured proxy; from anybody else they are what a caller
 *    says of itself.
 * 2. The caller is the rightmost address that is no configured proxy: what stands left of it, the caller
 *    may have written.
 * 3. Two headers that name different callers name none: one of them passed through a proxy that does not
 *    know it.
 *
 * Source: RFC 7239; X-Forwarded-For as nginx's `real_ip_recursive` and others read it.
 */
import type { IncomingHttpHeaders } from "node:http";
import { BlockList } from "node:net";
import { bytesOf, canonicalAddress, familyOf } from "../../host/ip-address.ts";

/** Addresses that share their first `prefix` bits. */
export interface Network {
  readonly address: string;
  readonly prefix: number;
}

const NETWORK = /^([0-9a-fA-F.:]+)(?:\/(\d{1,3}))?$/;

/**
 * `10.0.0.0/8`, `fd00::/8`, or one address. Null for anything else, for an address with bits beyond its
 * prefix (a mistake that trusts more than was meant), and for `/0`, which would trust everybody.
 */
export function parseNetwork(text: string): Network | null {
  const [, given = "", length] = NETWORK.exec(text.trim()) ?? [];
  const address = canonicalAddress(given);
  if (address === null || familyOf(address) !== familyOf(given)) return null;
  const bits = address.includes(":") ? 128 : 32;
  const prefix = length === undefined ? bits : Number(length);
  if (prefix < 1 || prefix > bits) return null;
  return isWhole(bytesOf(address), prefix) ? { address, prefix } : null;
}

/** Whether nothing is set beyond the prefix. */
function isWhole(bytes: readonly number[], prefix: number): boolean {
  return bytes.every((byte, at) => {
    const kept = Math.min(8, Math.max(0, prefix - at * 8));
    return (byte & (0xff >> kept)) === 0;
  });
}

type Headers = Readonly<IncomingHttpHeaders>;

export class TrustedProxies {
  readonly #networks = new BlockList();

  constructor(networks: readonly Network[]) {
    for (const { address, prefix } of networks) {
      this.#networks.addSubnet(address, prefix, address.includes(":") ? "ipv6" : "ipv4");
    }
  }

  /** Whether a connection from this address is a configured proxy's. */
  includes(address: string): boolean {
    const family = familyOf(address);
    return family !== null && this.#networks.check(address, family);
  }

  /** Who calls over a connection from `address`; null when its headers contradict each other, or one can not be read. */
  callerOf(address: string, headers: Headers): string | null {
    const own = canonicalAddress(address) ?? address;
    if (!this.includes(own)) return own;
    const chains: string[][] = [];
    const list = textOf(headers["x-forwarded-for"]);
    if (list !== null) chains.push(list.split(","));
    const forwarded = textOf(headers["forwarded"]);
    if (forwarded !== null) {
      const elements = forwardedElements(forwarded);
      if (elements === null) return null;
      chains.push(elements.map((element) => element.get("for") ?? ""));
    }
    const callers = new Set(chains.map((chain) => this.#along(chain, own)));
    if (callers.size > 1) return null;
    const [caller = own] = callers;
    return caller;
  }

  /** Whether the caller speaks TLS with the proxy at `address`, as that says. */
  isSecure(address: string, headers: Headers): boolean {
    if (!this.includes(address)) return false;
    const forwarded = textOf(headers["forwarded"]);
    const named =
      textOf(headers["x-forwarded-proto"])?.split(",").at(-1) ??
      (forwarded === null ? null : forwardedElements(forwarded)?.at(-1)?.get("proto"));
    return named?.trim().toLowerCase() === "https";
  }

  /** Each hop names the one before it, as far as one believes it. */
  #along(hops: readonly string[], last: string): string {
    let caller = last;
    for (const hop of hops.toReversed()) {
      if (!this.includes(caller)) break;
      const before = hopAddress(hop.trim());
      if (before === null) break;
      caller = before;
    }
    return caller;
  }
}

/** An address as hops are written: bare, with a port, or in brackets. Null for `unknown` and names. */
function hopAddress(hop: string): string | null {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(hop);
  if (bracketed !== null) return canonicalAddress(bracketed[1] ?? "");
  const [, address = hop] = /^(\d+(?:\.\d+){3}):\d{1,5}$/.exec(hop) ?? [];
  return canonicalAddress(address);
}

function textOf(header: string | string[] | undefined): string | null {
  return header === undefined ? null : [header].flat().join(",");
}

/** One pair of RFC 7239 4, and what ends it. */
const PAIR = /[ \t]*([!#$%&'*+.^_`|~\w-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*))[ \t]*([;,]|$)/y;

/** The elements of a `Forwarded` header, each a map of its pairs by lower-case name; null when it is none. */
function forwardedElements(header: string): ReadonlyMap<string, string>[] | null {
  const elements: Map<string, string>[] = [new Map()];
  for (let at = 0; at < header.length; at = PAIR.lastIndex) {
    PAIR.lastIndex = at;
    const pair = PAIR.exec(header);
    if (pair === null) return null;
    const [, name = "", quoted, token = "", end] = pair;
    elements.at(-1)?.set(name.toLowerCase(), quoted?.replace(/\\(.)/g, "$1") ?? token);
    if (end === ",") elements.push(new Map());
  }
  return elements;
}
