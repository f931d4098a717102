/**
 * The door of the SDK: a typed client of a lemon control plane. Nothing behind it needs Node: it runs
 * in browsers and in Node alike, on the platform's `WebSocket` or on a socket that is handed in.
 */
export { type ErrorCode, LemonError } from "../protocol/errors.ts";
export type { InputOf, MethodName, ResultOf } from "../protocol/methods.ts";
export { type BackoffPolicy, DEFAULT_BACKOFF } from "./backoff.ts";
export type { Client, ConnectionEnd, ConnectOptions } from "./client.ts";
export { connect } from "./connect.ts";
export type { CallOptions } from "./connection.ts";
export { CallError, ConnectError } from "./errors.ts";
export {
  type ClientEvent,
  type EventsOptions,
  isEvent,
  type KnownEvent,
  type Missed,
} from "./events.ts";
export type { Hello } from "./incoming.ts";
export type { Settlement } from "./settlement.ts";
export {
  LIVENESS_CLOSE_CODE,
  type OpenSocket,
  openPlatformSocket,
  type Socket,
  type SocketClose,
  type SocketEvents,
} from "./socket.ts";
export type { Timers } from "./timers.ts";
