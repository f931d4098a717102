/**
 * Owns what an IP address is to this port: its one spelling, whether it is this machine's own, and how
 * many connections come from where.
 */
import { BlockList, isIP, SocketAddress } from "node:net";

/** The one spelling of an address: IPv4 also when it was mapped into IPv6, no zone; null for anything else. */
export function canonicalAddress(text: string): string | null {
  const bare = text.replace(/%.*$/, "");
  const family = isIP(bare);
  if (family === 0) return null;
  if (family === 4) return bare;
  const { address } = new SocketAddress({ address: bare, family: "ipv6" });
  const mapped = address.startsWith(MAPPED) ? address.slice(MAPPED.length) : "";
  return isIP(mapped) === 4 ? mapped : address;
}

const MAPPED = "::ffff:";

/** The family of an address in the words of `BlockList`; null for anything else. */
export function familyOf(address: string): "ipv4" | "ipv6" | null {
  const family = isIP(address);
  if (family === 0) return null;
  return family === 4 ? "ipv4" : "ipv6";
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** 127/8, ::1, and the first mapped into IPv6. */
export function isLoopbackAddress(address: string): boolean {
  const family = familyOf(address);
  return family !== null && LOOPBACK.check(address, family);
}

export interface AddressLimits {
  /** Connections at once from one address: an IPv4 address, or a /64 of IPv6, which is what one host gets. */
  readonly perAddress: number;
  /** Of a /48 of IPv6, which is what one site gets. */
  readonly perSite: number;
  /**
   * Whether this machine's own are counted. By default they are not: they are programs that need no
   * network to do harm, or a proxy that nobody declared, whose clients all look the same.
   */
  readonly countLoopback: boolean;
}

/** Counts connections by where they come from. */
export class AddressCounts {
  readonly #limits: AddressLimits;
  readonly #counts = new Map<string, number>();

  constructor(limits: AddressLimits) {
    this.#limits = limits;
  }

  /** Counts one more until what it answers is called; null, and nothing counted, when there are too many. */
  take(address: string): (() => void) | null {
    if (!this.#limits.countLoopback && isLoopbackAddress(address)) return () => {};
    const { network, site } = placeOf(address);
    const { perAddress, perSite } = this.#limits;
    if (this.#count(network) >= perAddress) return null;
    if (site !== null && this.#count(site) >= perSite) return null;
    const places = site === null ? [network] : [network, site];
    for (const place of places) this.#counts.set(place, this.#count(place) + 1);
    return () => {
      for (const place of places) this.#giveBack(place);
    };
  }

  #count(place: string): number {
    return this.#counts.get(place) ?? 0;
  }

  #giveBack(place: string): void {
    const left = this.#count(place) - 1;
    if (left > 0) this.#counts.set(place, left);
    else this.#counts.delete(place);
  }
}

const NETWORK_BYTES = 8;
const SITE_BYTES = 6;

function placeOf(address: string): { network: string; site: string | null } {
  const canonical = canonicalAddress(address);
  if (canonical?.includes(":") !== true) return { network: canonical ?? address, site: null };
  const bytes = bytesOf(canonical);
  return {
    network: bytes.slice(0, NETWORK_BYTES).join("."),
    site: bytes.slice(0, SITE_BYTES).join("."),
  };
}

const GROUPS = 8;

/** The 4 or 16 bytes of a canonical address. */
export function bytesOf(canonical: string): readonly number[] {
  if (!canonical.includes(":")) return canonical.split(".").map(Number);
  const [left = "", right = ""] = canonical.split("::");
  const [head, tail] = [groupsOf(left), groupsOf(right)];
  const zeros = Array<number>(Math.max(0, GROUPS - head.length - tail.length)).fill(0);
  return [...head, ...zeros, ...tail].flatMap((group) => [group >> 8, group & 0xff]);
}

/** The last two groups may be written as an IPv4 address. */
function groupsOf(text: string): number[] {
  if (text === "") return [];
  return text.split(":").flatMap((group) => {
    const [a = 0, b = 0, c = 0, d = 0] = group.split(".").map(Number);
    return group.includes(".") ? [(a << 8) | b, (c << 8) | d] : [Number.parseInt(group, 16)];
  });
}
