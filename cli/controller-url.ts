/** Owns the reading of a controller's address as people write it. */
import { UsageError } from "./exit.ts";

/**
 * `ws://host:port/ws` from what was given: `http` reads as `ws`, `https` as `wss`, a bare root as
 * `/ws`. Throws a `UsageError` for anything that can not be a controller's address.
 */
export function controllerUrl(flag: string, text: string): string {
  const hint = "for example wss://controller.example/ws or ws://127.0.0.1:4040/ws";
  const url = URL.parse(text);
  const protocol = url === null ? undefined : PROTOCOLS.get(url.protocol);
  if (url === null || protocol === undefined || url.hostname === "")
    throw new UsageError(`${flag} wants the URL of a controller`, hint);
  if (url.username !== "" || url.password !== "")
    throw new UsageError(`${flag} must not hold a user name or password`, hint);
  if (url.hash !== "" || url.search !== "")
    throw new UsageError(`${flag} must have neither a query nor a fragment`, hint);
  const path = url.pathname === "/" ? "/ws" : url.pathname;
  return `${protocol}//${url.host}${path}`;
}

const PROTOCOLS: ReadonlyMap<string, string> = new Map([
  ["ws:", "ws:"],
  ["wss:", "wss:"],
  ["http:", "ws:"],
  ["https:", "wss:"],
]);

/** Whether what is sent there can be read on the way: no TLS, and not this very machine. */
export function isReadableOnTheWay(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "ws:" && !isLoopback(hostname);
}

/** 127.0.0.0/8, `::1` and the name that stands for them, as `URL.hostname` writes them. */
export function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}
