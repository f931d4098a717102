/**
 * Owns who comes in at the control plane's port: how many from where, whose pages, and who they are as far as
 * their connection tells.
 *
 * 1. Connections are bounded for each address and each site they come from. The clients of a trusted proxy
 *    are counted when it names them, and the proxy is not.
 * 2. Nobody is admitted of whom the proxy's headers say two things, nor a page that may not enter.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { AddressCounts } from "./addresses.ts";
import type { HttpAnswer } from "./answer.ts";
import { CONTRADICTING_PROXY, CROWDED, FOREIGN_PAGE } from "./fixed-answers.ts";
import { mayEnter } from "./origin.ts";
import { type Peer, peerOf } from "./peer.ts";
import type { TrustedProxies } from "./proxies.ts";

export interface AdmissionOptions {
  /** Whether the port itself speaks TLS. */
  readonly secure: boolean;
  readonly proxies: TrustedProxies;
  /** Pages that may enter besides our own, as `parseOrigin` gives them. */
  readonly allowedOrigins: ReadonlySet<string>;
  readonly addresses: AddressCounts;
  /** Somebody was turned away since too many come from the same place. */
  readonly onCrowded: () => void;
}

export class Admission {
  readonly #options: AdmissionOptions;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** Whether a connection may stand, of which nothing is known yet but where it comes from; it is cut if not. */
  accept(socket: Socket): boolean {
    const { proxies, addresses, onCrowded } = this.#options;
    const address = socket.remoteAddress ?? "";
    if (proxies.includes(address)) return true;
    const leave = addresses.take(address);
    if (leave === null) {
      onCrowded();
      socket.destroy();
      return false;
    }
    socket.once("close", leave);
    return true;
  }

  /** Whose request it is; null when the proxy's headers say two things. */
  callerOf({ headers, socket }: IncomingMessage): string | null {
    return this.#options.proxies.callerOf(socket.remoteAddress ?? "", headers);
  }

  /** Who asks for an upgrade, or why it gets none. */
  admit(request: IncomingMessage, socket: Duplex): Peer | HttpAnswer {
    const { proxies, allowedOrigins, addresses, onCrowded } = this.#options;
    const address = request.socket.remoteAddress ?? "";
    const secure = this.#options.secure || proxies.isSecure(address, request.headers);
    const peer = peerOf(request, { proxies, allowedOrigins, secure });
    if (peer === null) return CONTRADICTING_PROXY;
    const arrival = { remoteAddress: peer.remoteAddress, secure };
    if (!mayEnter(request, arrival, allowedOrigins)) return FOREIGN_PAGE;
    if (proxies.includes(address)) {
      const leave = addresses.take(peer.remoteAddress);
      if (leave === null) {
        onCrowded();
        return CROWDED;
      }
      socket.once("close", leave);
    }
    return peer;
  }
}
