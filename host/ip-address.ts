/**
 * Owns what an IP address is: its one spelling, its bytes, whether it is this machine's own, and which
 * networks it stands in for those who count by where somebody comes from.
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

const NETWORK_BYTES = 8;
const SITE_BYTES = 6;

/** Where an address is, for counting: who has one of IPv6 has 2^64 of them. */
export interface Place {
  /** An IPv4 address, also when it was mapped into IPv6, or the /64 of an IPv6 one: what one host gets (RFC 4291 2.5.4). */
  readonly network: string;
  /** The /48, which is what one site gets at most (RFC 6177); null for IPv4, whose addresses nobody has by the thousand. */
  readonly site: string | null;
}

/** The same for every spelling of an address; what is none is a place of its own. */
export function placeOf(address: string): Place {
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
