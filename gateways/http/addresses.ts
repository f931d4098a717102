/** Owns how many connections come to this port from where. */
import { isLoopbackAddress, placeOf } from "../../host/ip-address.ts";

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
