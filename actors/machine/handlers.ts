/**
 * Owns the words between the socket's gateway and whoever answers its routes: what a handler is given, and what it
 * answers with. Failures that a caller is to read are `HostAgentError`s; anything else becomes the route's own.
 */
import type { Download } from "../../host/machine/files.ts";
import type {
  RouteBody,
  RouteName,
  RouteParams,
  RouteQuery,
  RouteResult,
} from "../../protocol/host-agent/routes.ts";
import type { FrameReader } from "../job/messages.ts";

/** A request that was validated. */
export interface Call<R extends RouteName> {
  readonly params: RouteParams<R>;
  readonly query: RouteQuery<R>;
  readonly body: RouteBody<R>;
  /** Null without one; only where the route takes it. */
  readonly idempotencyKey: string | null;
  /** Null without one. */
  readonly lastEventId: number | null;
}

/** Where the frames of a stream come from. */
export type StreamSource =
  /** Frames with ids of their own. */
  | { readonly kind: "frames"; readonly reader: FrameReader<unknown> }
  /** What can be held up; `end` ends it, whether it was read or not. */
  | { readonly kind: "follow"; readonly lines: AsyncIterable<Line>; readonly end: () => void }
  /** What waits for nobody; the returned function ends it. */
  | {
      readonly kind: "watch";
      readonly watch: (onEvent: (event: object) => void) => () => void;
    };

interface Line {
  readonly line: string;
}

export type StreamRoute = "jobLog" | "journalFollow" | "networkEvents";
type DownloadRoute = "filesDownload";
type UploadRoute = "filesUpload";
type JsonRoute = Exclude<RouteName, StreamRoute | DownloadRoute | UploadRoute>;

/** As declared, but a number may come as a bigint: it is written exactly. */
type Exact<T> = T extends number
  ? number | bigint
  : T extends readonly unknown[] | object
    ? { readonly [K in keyof T]: Exact<T[K]> }
    : T;

/** One handler a route; a route without one does not compile. */
export type RouteHandlers = {
  readonly [R in JsonRoute]: (call: Call<R>) => Promise<Exact<RouteResult<R>>>;
} & {
  readonly [R in StreamRoute]: (call: Call<R>) => Promise<StreamSource>;
} & {
  readonly [R in DownloadRoute]: (call: Call<R>) => Promise<Download>;
} & {
  /** `bytes` throws when the caller is gone before its end. */
  readonly [R in UploadRoute]: (
    call: Call<R>,
    bytes: AsyncIterable<Uint8Array>,
  ) => Promise<RouteResult<R>>;
};
