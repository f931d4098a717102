/** Owns the typed client of a host-agent: every route by its name, over the UNIX socket. */
import { Readable } from "node:stream";
import type { JobView } from "../../protocol/host-agent/job.ts";
import type { RouteSpec } from "../../protocol/host-agent/route.ts";
import {
  ROUTES,
  type RouteBodyInput,
  type RouteName,
  type RouteParams,
  type RouteQueryInput,
  type RouteResult,
} from "../../protocol/host-agent/routes.ts";
import { platformTimers, type Timers } from "../timers.ts";
import { Job } from "./job.ts";
import { type Input, Requests, type Target } from "./request.ts";
import { type Frame, frames, type StreamOptions } from "./streams.ts";

export interface HostAgentOptions {
  /** Default: `MALMO_AGENT_SOCK`, else `/var/run/malmo/agent.sock`. */
  readonly socketPath?: string;
  /** How long a call waits for its answer, in ms; streams and file bytes have no such limit. Default 30,000. */
  readonly timeoutMs?: number;
  readonly timers?: Timers;
}

type Nothing = Record<never, never>;

/** Demanded where something in it is. */
type Given<Name extends string, T> = [T] extends [null]
  ? { readonly [N in Name]?: undefined }
  : Nothing extends T
    ? { readonly [N in Name]?: T | undefined }
    : { readonly [N in Name]: T };

/** What a route takes: what it can not do without is demanded. */
export type RouteInput<R extends RouteName> = Given<"params", RouteParams<R>> &
  Given<"query", RouteQueryInput<R>> &
  Given<"body", RouteBodyInput<R>> & {
    readonly idempotencyKey?: string | undefined;
    readonly signal?: AbortSignal | undefined;
  };

/** The rest of a call. */
export type RouteArguments<R extends RouteName> =
  Nothing extends RouteInput<R> ? [input?: RouteInput<R>] : [input: RouteInput<R>];

/** The routes that send events. */
export type StreamName = "jobLog" | "journalFollow" | "networkEvents";
type StreamInput<R extends StreamName> = Given<"params", RouteParams<R>> &
  Given<"query", RouteQueryInput<R>>;
/** The rest of a stream. */
export type StreamArguments<R extends StreamName> =
  Nothing extends StreamInput<R>
    ? [input?: StreamInput<R>, options?: StreamOptions]
    : [input: StreamInput<R>, options?: StreamOptions];
/** The routes that answer one JSON object. */
export type CallName = Exclude<RouteName, StreamName | "filesDownload" | "filesUpload">;
/** The routes that start a job. */
export type JobName = "systemUpdate" | "enrollDrive" | "ejectDrive" | "reboot" | "shutdown";

const SOCKET = "/var/run/malmo/agent.sock";
const TIMEOUT_MS = 30_000;

export class HostAgent {
  readonly socketPath: string;
  readonly #requests: Requests;
  readonly #timeoutMs: number;
  readonly #timers: Timers;

  constructor(options: HostAgentOptions = {}) {
    this.socketPath = options.socketPath ?? process.env["MALMO_AGENT_SOCK"] ?? SOCKET;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#timers = options.timers ?? platformTimers;
    this.#requests = new Requests(this.socketPath);
  }

  /** Ends the connections that are kept open for reads. */
  close(): void {
    this.#requests.close();
  }

  /** One route that answers JSON. Errors: `HostAgentCallError`. */
  async call<R extends CallName>(route: R, ...[input]: RouteArguments<R>): Promise<RouteResult<R>> {
    // The two halves are shipped together (lockstep): what it answers is what this version declares.
    return (await this.#ask(route, input ?? {})) as RouteResult<R>;
  }

  async #ask(route: CallName, input: Input): Promise<unknown> {
    const inTime = AbortSignal.timeout(this.#timeoutMs);
    const signal = input.signal === undefined ? inTime : AbortSignal.any([input.signal, inTime]);
    return await this.#requests.json(targetOf(route), { ...input, signal });
  }

  /** One route that sends events: each frame once, in order, over cuts. Errors, while iterating: as `call`. */
  stream<R extends StreamName>(
    route: R,
    ...[input, options]: StreamArguments<R>
  ): AsyncGenerator<Frame<RouteResult<R>>, void, undefined> {
    return frames(this.#requests, targetOf(route), input ?? {}, options ?? {}, this.#timers);
  }

  /** Starts a job. With an `idempotencyKey` it may be started again without harm: it is the same job. */
  async start<R extends JobName>(
    route: R,
    body: RouteBodyInput<R>,
    options: { readonly idempotencyKey?: string; readonly signal?: AbortSignal } = {},
  ): Promise<Job> {
    // Every one of these routes answers its job.
    return new Job(this, (await this.#ask(route, { ...options, body })) as JobView, this.#timers);
  }

  /** A job that is there. Errors: `unknown-job`. */
  async job(id: string): Promise<Job> {
    return new Job(this, await this.call("jobGet", { params: { id } }), this.#timers);
  }

  /**
   * The bytes of a file; destroying the stream closes the connection. One that is cut before the last byte ends with
   * an error.
   */
  async download(query: RouteQueryInput<"filesDownload">, signal?: AbortSignal): Promise<Readable> {
    return await this.#requests.open(targetOf("filesDownload"), { query, signal });
  }

  /** Replaces a file, once all bytes are there. A stream that is given is read to its end or destroyed. */
  async upload(
    query: RouteQueryInput<"filesUpload">,
    bytes: Readable | Uint8Array | AsyncIterable<Uint8Array>,
    signal?: AbortSignal,
  ): Promise<void> {
    const isReady = bytes instanceof Uint8Array || bytes instanceof Readable;
    const upload = isReady ? bytes : Readable.from(bytes);
    try {
      await this.#requests.json(targetOf("filesUpload"), { query, upload, signal });
    } finally {
      // Of one that was refused the rest is not sent.
      if (upload instanceof Readable) upload.destroy();
    }
  }
}

function targetOf(route: RouteName): Target {
  return { route, spec: ROUTES[route] as unknown as RouteSpec };
}
