/**
 * Owns how a route of the host-agent's socket is declared, once. The gateway, the SDK, the OpenAPI document and
 * the brain's guide all derive from these declarations.
 */
import { z } from "zod";
import type { HostAgentErrorCode } from "./errors.ts";

export type HttpMethod = "GET" | "POST" | "PUT";

/**
 * What is sent instead of a JSON result: `sse` a text/event-stream of `result` objects, one a frame (it takes
 * `Last-Event-ID`); `octets` the bytes of a file as application/octet-stream.
 */
export type RouteStream = "sse" | "octets";

export interface RouteSpec<
  Params extends z.ZodObject = z.ZodObject,
  Query extends z.ZodObject = z.ZodObject,
  Body extends z.ZodObject | null = z.ZodObject | null,
  Result extends z.ZodType = z.ZodType,
> {
  /** Unique; what the SDK and the handlers call it. */
  readonly name: string;
  readonly method: HttpMethod;
  /** As OpenAPI writes it: `/v1/users/{username}/home`. */
  readonly path: string;
  /** Whether it changes something on the host. */
  readonly effect: "read" | "mutation";
  /** One sentence. */
  readonly summary: string;
  readonly params: Params;
  readonly query: Query;
  /**
   * The JSON object of the body; null when none is read as one. Unknown fields are ignored, and null in a field
   * is as if it were missing.
   */
  readonly body: Body;
  /** Whether no body at all is as good as `{}`: where no field is required. */
  readonly bodyOptional: boolean;
  /** True when the body is the bytes of a file, of any length and duration. */
  readonly upload: boolean;
  /** Of the JSON answer, or of one frame of an `sse` stream. */
  readonly result: Result;
  /** Of success. */
  readonly status: 200 | 202;
  /** Besides those of every route (`COMMON_ERRORS`). */
  readonly errors: readonly HostAgentErrorCode[];
  /** What an unexpected failure of its handler is called. */
  readonly failure: HostAgentErrorCode;
  readonly stream: RouteStream | null;
  /** Takes an `Idempotency-Key` header (1 to 128 of letters, digits, _, : and -). */
  readonly idempotencyKey: boolean;
}

/** What any route can answer. */
export const COMMON_ERRORS = [
  "bad-request",
  "headers-too-large",
  "request-timeout",
  "shutting-down",
  "unavailable",
  "timeout",
  "internal-error",
] as const satisfies readonly HostAgentErrorCode[];

const NOTHING = z.object({});
type Nothing = typeof NOTHING;

/** The answer `{}` of a route that only says "done". */
export const done = z.object({}).describe("Done.");

type RouteInput<
  Name extends string,
  Params extends z.ZodObject,
  Query extends z.ZodObject,
  Body extends z.ZodObject | null,
  Result extends z.ZodType,
> = Pick<RouteSpec, "method" | "path" | "summary"> & {
  readonly name: Name;
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: Body;
  readonly result: Result;
} & Partial<
    Pick<
      RouteSpec,
      | "effect"
      | "bodyOptional"
      | "upload"
      | "status"
      | "errors"
      | "failure"
      | "stream"
      | "idempotencyKey"
    >
  >;

/** Declares a route. With a body, `bad-json` and `body-too-large` are among its errors by themselves. */
export function route<
  const Name extends string,
  Result extends z.ZodType,
  Params extends z.ZodObject = Nothing,
  Query extends z.ZodObject = Nothing,
  Body extends z.ZodObject | null = null,
>(
  input: RouteInput<Name, Params, Query, Body, Result>,
): RouteSpec<Params, Query, Body, Result> & { readonly name: Name } {
  const { errors = [], failure = "internal-error", body = null } = input;
  const read: readonly HostAgentErrorCode[] = body === null ? [] : ["bad-json", "body-too-large"];
  return {
    effect: input.method === "GET" ? "read" : "mutation",
    bodyOptional: body?.safeParse({}).success ?? false,
    upload: false,
    status: 200,
    stream: null,
    idempotencyKey: false,
    ...input,
    failure,
    errors: [...new Set([...read, ...errors, failure])],
    // What is left out has the type of its default.
    params: input.params ?? (NOTHING as unknown as Params),
    query: input.query ?? (NOTHING as unknown as Query),
    body: body as Body,
  };
}

/** A string that must be there and not be empty; both failures read as `message`. */
export function requiredText(message: string): z.ZodString {
  return z.string({ error: message }).min(1, message);
}
