/**
 * Owns how this port answers plain HTTP: JSON bodies, the error envelope, the headers every answer
 * carries, and the same answer written onto a bare socket where there is no response object (a refused
 * upgrade, a request that could not be parsed).
 * Source: system-methods.md ("HTTP and protocol errors"), RFC 9110.
 */
import { type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { WireCode } from "../../protocol/errors.ts";

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Nothing this port answers may be cached, sniffed, framed, or used by another site's page. */
const EVERY_ANSWER = {
  "Content-Type": "application/json; charset=utf-8",
  "Cache-Control": "no-store",
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
} as const;

export function jsonAnswer(
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): HttpAnswer {
  const body = JSON.stringify(value);
  return {
    status,
    headers: { ...EVERY_ANSWER, ...headers, "Content-Length": String(Buffer.byteLength(body)) },
    body,
  };
}

/** A failure in the envelope `{"error":{"code","message"}}`. */
export function refusal(
  status: number,
  code: WireCode,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): HttpAnswer {
  return jsonAnswer(status, { error: { code, message } }, headers);
}

/** `withBody` is false for HEAD: the same headers, nothing after them. */
export function sendAnswer(response: ServerResponse, answer: HttpAnswer, withBody: boolean): void {
  const headers: OutgoingHttpHeaders = answer.headers;
  response.writeHead(answer.status, headers);
  response.end(withBody ? answer.body : undefined);
}

/** Answers on a socket that no response object owns, and closes it. */
export function sendOnSocket(socket: Duplex, answer: HttpAnswer): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const headers = Object.entries({ ...answer.headers, Connection: "close" });
  const head = [
    `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status] ?? ""}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ];
  socket.once("finish", () => socket.destroy());
  socket.end(`${head.join("\r\n")}\r\n\r\n${answer.body}`);
}
