/**
 * Owns the WebSocket of programs in Node (`ws`): the platform's own takes no CA, does not say why a connection
 * failed, can not be dropped (a peer that is frozen holds the process for half a minute), and bounds nothing
 * that comes in.
 */
import { X509Certificate } from "node:crypto";
import { Agent } from "node:https";
import { WebSocket } from "ws";
import type { OpenSocket, SocketClose } from "../socket.ts";

export interface SocketSettings {
  /** PEM of the authorities to trust in place of the system's. */
  readonly ca?: string;
  /** PEM of the one certificate to trust, whatever it says of itself; goes before `ca`. */
  readonly certificate?: string;
}

/** How Node's requests trust by these settings; undefined for what the system trusts. */
export function trustingAgent({ ca, certificate }: SocketSettings): Agent | undefined {
  if (certificate === undefined) return ca === undefined ? undefined : new Agent({ ca });
  const { fingerprint256 } = new X509Certificate(certificate);
  return new Agent({
    ca: certificate,
    // It is trusted itself, not those that issued it.
    allowPartialTrustChain: true,
    checkServerIdentity: (_host, shown) =>
      shown.fingerprint256 === fingerprint256 ? undefined : new Error("another certificate"),
  });
}

/** Longest inbound frame in bytes; a longer one ends the connection with 1009. */
const MAX_INBOUND_BYTES = 16_777_216;

export function socketOpener(settings: SocketSettings = {}): OpenSocket {
  const agent = trustingAgent(settings);
  return (url, events) => {
    let failure: string | null = null;
    const socket = new WebSocket(url, {
      maxPayload: MAX_INBOUND_BYTES,
      // Compressed frames would undo the bound above, and cost more than loopback gains.
      perMessageDeflate: false,
      followRedirects: false,
      ...(agent === undefined || !url.startsWith("wss:") ? {} : { agent }),
    });
    socket.on("open", () => events.opened());
    socket.on("message", (data, isBinary) => {
      if (isBinary) events.binary();
      else events.text(data.toString());
    });
    socket.on("unexpected-response", (_request, response) => {
      failure = `HTTP ${response.statusCode ?? "?"}`;
      socket.terminate();
    });
    // ws always emits `close` after `error`; the first failure is the cause.
    socket.on("error", (error) => {
      failure ??= codeOf(error);
    });
    socket.on("close", (code, reason) => {
      const close: SocketClose = { code, reason: reason.toString(), failure };
      events.closed(close);
    });
    return {
      send(text) {
        if (socket.readyState === WebSocket.OPEN) socket.send(text);
      },
      close(code, reason) {
        socket.close(code, reason);
      },
      drop() {
        socket.terminate();
      },
      get bufferedBytes() {
        return socket.bufferedAmount;
      },
    };
  };
}

/** A short code without content: never the message, which quotes addresses and headers. */
function codeOf(error: Error & { readonly code?: unknown }): string {
  if (error instanceof AggregateError) {
    const [first] = error.errors;
    if (first instanceof Error) return codeOf(first);
  }
  return typeof error.code === "string" ? error.code : error.name;
}
