/**
 * Owns one HTTP request over the host-agent's UNIX socket: sent, answered, or failed with what that means.
 *
 * 1. A change goes over a connection of its own: one that is kept open can be closed by the peer in the very
 *    moment of the request, and then nobody could say whether it arrived.
 * 2. A read whose kept connection was closed before the answer is sent once more, over a new one.
 * 3. A failure before the connection stood was certainly not sent, and neither was a file before its last byte: the
 *    host replaces nothing by a part.
 * 4. However an upload ends, its source is read to its end or destroyed.
 */
import { Agent, type IncomingMessage, type RequestOptions, request } from "node:http";
import { pipeline, Readable } from "node:stream";
import type { RouteSpec } from "../../protocol/host-agent/route.ts";
import type { RouteName } from "../../protocol/host-agent/routes.ts";
import { type ClientCode, HostAgentCallError, unconnectedCode } from "./errors.ts";

export interface Input {
  readonly params?: Readonly<Record<string, unknown>> | undefined;
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  readonly body?: unknown;
  readonly idempotencyKey?: string | undefined;
  readonly lastEventId?: string | undefined;
  /** The bytes of a file, in place of a body. */
  readonly upload?: Readable | Uint8Array | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Target {
  readonly spec: RouteSpec;
  readonly route: RouteName;
}

/** Of the failures of the host these say that nothing was done: not offered, not now, no space. */
const NOTHING_DONE: ReadonlySet<number> = new Set([501, 503, 507]);
/** An answer that is no stream. */
const LONGEST_ANSWER_BYTES = 64 * 1_048_576;

const MESSAGES: Readonly<Record<ClientCode, string>> = {
  unreachable: "nobody answers on the socket; nothing was sent",
  "no-access": "this account may not open the socket; nothing was sent",
  "no-answer": "the connection ended before the answer",
  timeout: "no answer came in time",
  aborted: "the call was aborted",
  "bad-answer": "the answer is none of the host-agent's",
  "stream-lost": "the stream was cut and did not come back",
};

export class Requests {
  readonly #socketPath: string;
  readonly #kept = new Agent({ keepAlive: true, maxSockets: 64, timeout: 30_000 });

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  close(): void {
    this.#kept.destroy();
  }

  /** Resolves with the head of a successful answer. Errors: `HostAgentCallError`. */
  async open(target: Target, input: Input): Promise<IncomingMessage> {
    const answer = await this.#answered(target, input);
    const { statusCode = 0 } = answer;
    if (statusCode >= 200 && statusCode < 300) return answer;
    throw refused(target, input, statusCode, await text(target, input, answer));
  }

  /** The JSON of a successful answer; `{}` for one without a body. */
  async json(target: Target, input: Input): Promise<unknown> {
    const answer = await this.open(target, input);
    const body = await text(target, input, answer);
    try {
      return body === "" ? {} : JSON.parse(body);
    } catch (cause) {
      throw failure("bad-answer", target, input, { cause });
    }
  }

  async #answered(target: Target, input: Input): Promise<IncomingMessage> {
    if (target.spec.effect === "mutation") return await this.#send(target, input, false);
    try {
      return await this.#send(target, input, true);
    } catch (error) {
      const isLost = error instanceof HostAgentCallError && error.code === "no-answer";
      if (!isLost) throw error;
      return await this.#send(target, input, false);
    }
  }

  #send(target: Target, input: Input, kept: boolean): Promise<IncomingMessage> {
    const { spec } = target;
    const json = spec.body === null || input.body === undefined ? null : JSON.stringify(input.body);
    const options: RequestOptions = {
      socketPath: this.#socketPath,
      method: spec.method,
      path: pathOf(spec, input),
      agent: kept ? this.#kept : false,
      headers: headersOf(spec, input, json),
    };
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    if (input.signal?.aborted) {
      reject(failure(abortCode(input.signal), target, input, { sent: false }));
      return promise;
    }
    const sent = request(options, resolve);
    let connected = false;
    sent.on("socket", (socket) => {
      if (socket.connecting) socket.once("connect", () => (connected = true));
      else connected = true;
    });
    const wasSent = (): boolean => connected && sent.writableEnded;
    const abort = (): void => {
      reject(failure(abortCode(input.signal), target, input, { sent: wasSent() }));
      sent.destroy();
    };
    input.signal?.addEventListener("abort", abort, { once: true });
    sent.on("close", () => input.signal?.removeEventListener("abort", abort));
    const { upload } = input;
    sent.on("error", (cause) => {
      // A source that fails is the caller's own affair.
      const isOurs = upload instanceof Readable && upload.errored !== null;
      const code = isOurs ? "aborted" : connected ? "no-answer" : unconnectedCode(cause);
      reject(failure(code, target, input, { cause, sent: wasSent() }));
    });
    if (!(upload instanceof Readable)) sent.end(upload ?? json);
    // What goes wrong reaches the request as its error.
    else pipeline(upload, sent, () => {});
    return promise;
  }
}

function pathOf({ path }: RouteSpec, { params, query }: Input): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(params?.[name] ?? "")),
  );
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) search.set(name, String(value));
  }
  return search.size === 0 ? filled : `${filled}?${search}`;
}

function headersOf(spec: RouteSpec, input: Input, json: string | null): Record<string, string> {
  return {
    host: "agent",
    ...(json !== null && {
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(json)),
    }),
    ...(input.upload instanceof Uint8Array && {
      "content-length": String(input.upload.byteLength),
    }),
    ...(input.upload !== undefined && { "content-type": "application/octet-stream" }),
    ...(spec.idempotencyKey &&
      input.idempotencyKey !== undefined && { "idempotency-key": input.idempotencyKey }),
    ...(input.lastEventId !== undefined && { "last-event-id": input.lastEventId }),
  };
}

async function text(target: Target, input: Input, answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of answer) {
      bytes += chunk.length;
      if (bytes > LONGEST_ANSWER_BYTES) throw failure("bad-answer", target, input, {});
      chunks.push(chunk);
    }
  } catch (cause) {
    if (cause instanceof HostAgentCallError) throw cause;
    throw failure(input.signal?.aborted ? abortCode(input.signal) : "no-answer", target, input, {
      cause,
    });
  }
  return Buffer.concat(chunks).toString("utf8");
}

function refused(target: Target, input: Input, status: number, body: string): HostAgentCallError {
  let code = "bad-answer";
  let message = MESSAGES["bad-answer"];
  try {
    const said = Object(JSON.parse(body)) as { code?: unknown; message?: unknown };
    if (typeof said.code === "string" && typeof said.message === "string") {
      code = said.code;
      message = said.message;
    }
  } catch {
    // Not of this protocol: what it said is nobody's to pass on.
  }
  return new HostAgentCallError({
    code,
    route: target.route,
    mutation: target.spec.effect === "mutation",
    status,
    message,
    uncertain: status >= 500 && !NOTHING_DONE.has(status),
    repeatable: isKeyed(target.spec, input),
  });
}

export function failure(
  code: ClientCode,
  target: Target,
  input: Input,
  { cause, sent = true }: { readonly cause?: unknown; readonly sent?: boolean },
): HostAgentCallError {
  return new HostAgentCallError({
    code,
    route: target.route,
    mutation: target.spec.effect === "mutation",
    status: null,
    message: MESSAGES[code],
    uncertain: sent,
    repeatable: isKeyed(target.spec, input),
    cause,
  });
}

/** `AbortSignal.timeout` says so in its reason. */
export function abortCode(signal: AbortSignal | undefined): "timeout" | "aborted" {
  return Object(signal?.reason).name === "TimeoutError" ? "timeout" : "aborted";
}

/** The same key and body is the same job, however often it is sent. */
function isKeyed({ idempotencyKey }: RouteSpec, input: Input): boolean {
  return idempotencyKey && input.idempotencyKey !== undefined;
}
