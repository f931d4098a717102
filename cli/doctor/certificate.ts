/** Owns the doctor's look at the certificate that a controller shows, or the proxy before it. */
import { once } from "node:events";
import { isIP } from "node:net";
import { connect as connectTls } from "node:tls";
import { dayOf, EXPIRES_SOON_MS } from "../../gateways/http/certificate.ts";
import { type Finding, fail, ok, warn } from "./check.ts";

const HANDSHAKE_MS = 5_000;

/** When it ends; null without TLS, or when nobody shows one: what the connection says of that comes next. */
export async function checkCertificate(url: string, nowMs: number): Promise<Finding | null> {
  if (!url.startsWith("wss:")) return null;
  const endsAtMs = await endOfShown(new URL(url));
  if (endsAtMs === null) return null;
  const name = "certificate";
  const mend =
    "renew it where it is served from, and have it loaded: a controller with --tls-cert does so on SIGHUP";
  if (endsAtMs <= nowMs) return fail(name, `expired on ${dayOf(endsAtMs)}`, mend);
  const finding = `valid until ${dayOf(endsAtMs)}`;
  return endsAtMs - nowMs < EXPIRES_SOON_MS ? warn(name, finding, mend) : ok(name, finding);
}

async function endOfShown({ hostname, port }: URL): Promise<number | null> {
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const socket = connectTls({
    host,
    port: Number(port || 443),
    ...(isIP(host) === 0 ? { servername: host } : {}),
    // It is looked at, whoever issued it and whether or not it has ended; nothing is said over this connection.
    rejectUnauthorized: false,
  });
  try {
    await once(socket, "secureConnect", { signal: AbortSignal.timeout(HANDSHAKE_MS) });
    const endsAtMs = Date.parse(socket.getPeerCertificate().valid_to);
    return Number.isNaN(endsAtMs) ? null : endsAtMs;
  } catch {
    return null;
  } finally {
    // It may still fail, with nobody left to hear of it.
    socket.on("error", () => {});
    socket.destroy();
  }
}
