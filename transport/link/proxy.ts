/**
 * Owns the way of leafs through the controller's own port: `/leafnode` is joined to the hub's websocket
 * listener, and to nothing else of it.
 *
 * 1. The hub gets a request head of our own making, on a connection that carries nothing else; not one
 *    byte of the client's follows before the hub has consented. A client that sent some is refused:
 *    through a plain byte proxy they would be read as a second request, for another path.
 * 2. Handshakes under way, links, the time a handshake takes and the size of the hub's answer are bounded.
 * 3. Whoever the hub has not spoken to again after its INFO is a stranger: it has not shown who it is.
 *    Strangers have room of their own, and where it is full the one that has been silent longest goes: a
 *    node is known within milliseconds, so a flood takes no place of theirs.
 * 4. Nothing a client claims about itself (Origin, X-Forwarded-For, …) reaches the hub.
 */
import type { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import { askHub, type Consent } from "./handshake.ts";
import { pipe } from "./pipe.ts";
import { createRation, type Ration } from "./ration.ts";
import { judge, type RefusalStatus, responseHead } from "./upgrade.ts";

const DEFAULT_LIMITS: LeafProxyLimits = {
  handshakeMs: 5_000,
  pendingHandshakes: 64,
  links: 4_096,
  strangers: 256,
};

export interface LeafProxyOptions {
  /** The hub's websocket listener. */
  readonly hubWebsocket: { readonly host: string; readonly port: number };
  /** Answers in plain HTTP and closes; what the client still sends is not read. */
  readonly refuse: (node: Duplex, status: RefusalStatus) => void;
  readonly clock: Clock;
  readonly log: Logger;
  readonly ration?: Ration;
  readonly limits?: Partial<LeafProxyLimits>;
}

export interface LeafProxyLimits {
  readonly handshakeMs: number;
  readonly pendingHandshakes: number;
  readonly links: number;
  /** Of the links, those that have not shown who they are. */
  readonly strangers: number;
}

export interface LeafProxy {
  /** Takes over a request with `Upgrade` (`http.Server`'s event), whatever its path. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  snapshot(): { readonly links: number; readonly pending: number };
  /** Cuts every link and takes no more. */
  close(): void;
}

export function createLeafProxy(options: LeafProxyOptions): LeafProxy {
  const { hubWebsocket, refuse, clock, log } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const ration = options.ration ?? createRation({ clock });
  const pending = new Map<Duplex, AbortController>();
  const links = new Set<Duplex>();
  /** In the order they came. */
  const strangers = new Set<Duplex>();
  let closed = false;
  /** Said once, until the hub takes a leaf again: how often it is tried is the leafs' doing. */
  let hubFails = false;

  async function connect(node: Duplex, key: string): Promise<void> {
    const abandoned = new AbortController();
    const abandon = (): void => abandoned.abort();
    node.on("close", abandon);
    pending.set(node, abandoned);
    const { handshakeMs: timeoutMs } = limits;
    const answer = await askHub({ hubWebsocket, key, clock, timeoutMs, signal: abandoned.signal });
    pending.delete(node);
    node.off("close", abandon);
    if (typeof answer !== "number") {
      hubFails = false;
      if (node.destroyed) answer.hub.destroy();
      else join(node, answer, key);
    } else if (!node.destroyed) {
      if (!hubFails) log.warn({ status: answer }, "the hub takes no leaf");
      hubFails = true;
      refuse(node, answer);
    }
  }

  function join(node: Duplex, { hub, first }: Consent, key: string): void {
    links.add(node);
    admitStranger(node);
    let hasInfo = first.length > 0;
    const onGiven = (): void => {
      if (hasInfo) strangers.delete(node);
      hasInfo = true;
    };
    if (node instanceof Socket) node.setNoDelay(true).setTimeout(0);
    node.write(responseHead(key));
    if (first.length > 0) node.write(first);
    const onClosed = (): void => {
      links.delete(node);
      strangers.delete(node);
    };
    pipe({ node, hub, ration, clock, onGiven, onClosed });
  }

  function admitStranger(node: Duplex): void {
    const [oldest] = strangers;
    if (oldest !== undefined && strangers.size >= limits.strangers) {
      strangers.delete(oldest);
      oldest.destroy();
    }
    strangers.add(node);
  }

  return {
    upgrade(request, node, head) {
      // From here to the end of the line: an error is followed by `close`, which is what counts.
      node.on("error", () => undefined);
      const verdict = judge(request, head);
      if (!verdict.ok) {
        refuse(node, verdict.status);
      } else if (
        closed ||
        pending.size >= limits.pendingHandshakes ||
        pending.size + links.size - strangers.size >= limits.links
      ) {
        refuse(node, 503);
      } else {
        void connect(node, verdict.key);
      }
    },
    snapshot: () => ({ links: links.size, pending: pending.size }),
    close() {
      closed = true;
      for (const abandoned of [...pending.values()]) abandoned.abort();
      for (const node of [...pending.keys(), ...links]) node.destroy();
    },
  };
}
