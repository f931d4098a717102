/** Owns the bounds of the control plane's port: of time, of bytes, of connections. */
import type { AddressLimits } from "./addresses.ts";

export interface HttpLimits extends AddressLimits {
  /** Time a peer has for its TLS handshake, in ms. */
  readonly tlsHandshakeMs: number;
  /** Time a peer has for its request head, from the opening of its connection, in ms. */
  readonly headMs: number;
  /** Time for a whole request, in ms. */
  readonly requestMs: number;
  /** How long an idle connection is kept for another request, in ms. */
  readonly keepAliveMs: number;
  /** How often the times above are looked at, in ms. */
  readonly checkMs: number;
  readonly headBytes: number;
  /** Sockets of every kind at once; the next one is closed as it comes. */
  readonly connections: number;
}

export const LIMITS: HttpLimits = {
  tlsHandshakeMs: 10_000,
  headMs: 10_000,
  requestMs: 15_000,
  keepAliveMs: 5_000,
  checkMs: 2_000,
  headBytes: 16_384,
  // The sessions' own limit, with room for node links and probes beside them.
  connections: 12_288,
  // A site behind one address may have 500 nodes, of two connections each; and no one address can take
  // more than a twelfth of the port.
  perAddress: 1_024,
  perSite: 4_096,
  countLoopback: false,
};
