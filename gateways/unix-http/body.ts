/**
 * Owns the reading of a JSON body (wire reference 1.2): bounded in size and in time, whatever its Content-Type
 * says; the first value in it counts, and what follows is ignored.
 */
import type { IncomingMessage } from "node:http";
import type { Clock } from "../../host/clock.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";

export interface BodyLimits {
  readonly bodyBytes: number;
  /** From the first byte asked for to the last one come, in ms. */
  readonly bodyMs: number;
}

/** Errors: `body-too-large`, `request-timeout`; a request that broke off is `bad-request`. */
export async function readBody(
  request: IncomingMessage,
  { bodyBytes, bodyMs }: BodyLimits,
  clock: Clock,
): Promise<Buffer> {
  if (Number(request.headers["content-length"] ?? 0) > bodyBytes) throw tooLarge();
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  let length = 0;
  const onData = (chunk: Buffer): void => {
    length += chunk.byteLength;
    if (length > bodyBytes) reject(tooLarge());
    else chunks.push(chunk);
  };
  const onEnd = (): void => resolve(Buffer.concat(chunks));
  const onGone = (): void => reject(new HostAgentError("bad-request"));
  const cancel = clock.after(bodyMs, () => reject(new HostAgentError("request-timeout")));
  request.on("data", onData).on("end", onEnd).on("error", onGone).on("close", onGone);
  try {
    return await promise;
  } finally {
    cancel();
    request.off("data", onData).off("end", onEnd).off("close", onGone);
    // The one for errors stays: one that nobody hears would end the process.
  }
}

function tooLarge(): HostAgentError {
  return new HostAgentError("body-too-large");
}

/**
 * The object in a body; null in a field is left out, however deep it lies, and null alone is the empty object.
 * Errors: `bad-json`.
 */
export function parseObject(bytes: Buffer): Readonly<Record<string, unknown>> {
  const text = bytes.toString("utf8");
  const value = parseFirst(text);
  if (value === null) return {};
  if (typeof value !== "object" || Array.isArray(value)) {
    throw badJson(
      `the body is ${Array.isArray(value) ? "an array" : `a ${typeof value}`}, not an object`,
    );
  }
  return Object.fromEntries(Object.entries(value));
}

function parseFirst(text: string): unknown {
  try {
    return JSON.parse(text, withoutNull);
  } catch {
    const end = endOfFirst(text);
    if (end === null) throw badJson(text.trim() === "" ? "EOF" : "the body is not JSON");
    try {
      return JSON.parse(text.slice(0, end), withoutNull);
    } catch {
      throw badJson("the body is not JSON");
    }
  }
}

/** A member that a reviver makes undefined is left out; in a list it would be a hole. */
function withoutNull(this: unknown, name: string, value: unknown): unknown {
  return value === null && name !== "" && !Array.isArray(this) ? undefined : value;
}

/** Behind the first object, or null; null when there is neither. */
function endOfFirst(text: string): number | null {
  const start = text.search(/[^ \t\r\n]/);
  if (text.startsWith("null", start)) return start + 4;
  if (text[start] !== "{") return null;
  let depth = 0;
  let quoted = false;
  for (let at = start; at < text.length; at += 1) {
    const character = text[at];
    if (quoted) {
      if (character === "\\") at += 1;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = true;
    else if (character === "{" || character === "[") depth += 1;
    else if (character === "}" || character === "]") {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return null;
}

function badJson(message: string): HostAgentError {
  return new HostAgentError("bad-json", { message });
}
