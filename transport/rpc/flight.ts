/** Owns what is known of one call to a node, from its admission to its end. */
import { randomUUID } from "node:crypto";
import type { CancelTimer } from "../../host/clock.ts";
import type { LemonError } from "../../protocol/errors.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import { AnswerReader } from "./envelope.ts";
import type { Passage } from "./flow.ts";

/** What a call is expected to bring back when its caller does not say. */
const DEFAULT_ANSWER_BYTES = 64 * 1024;
/** Subject, protocol line and bookkeeping of one message. */
const MESSAGE_OVERHEAD_BYTES = 512;
const UNNAMED_CALLER = "";

export interface CallOptions {
  readonly method: string;
  readonly params: unknown;
  /** The worker life that is meant. */
  readonly generation: number;
  /** How long to wait for the answer from now, waiting for a turn included, in ms. */
  readonly deadlineMs: number;
  /** Whether an uncertain outcome may have changed something. */
  readonly mutation: boolean;
  /** Who asks, for fairness: callers take turns. For example a connection id. */
  readonly caller?: string;
  /** The most the answer is expected to hold, in bytes. Default 64 KiB. */
  readonly answerBytes?: number;
}

export class Flight implements Passage {
  readonly id = randomUUID();
  readonly node: NodeKey;
  readonly caller: string;
  readonly mutation: boolean;
  readonly answer: AnswerReader;
  readonly bytes: number;
  readonly waitingBytes: number;
  readonly #launch: (flight: Flight) => void;
  /** Null once it has left the link's books: it is not sent again after that. */
  payload: Uint8Array | null;
  /** False while it waits for its turn, and again when "no responders" proved that nothing arrived. */
  sent = false;
  launchedAtMs = 0;
  /** When it first met no responders. */
  refusedAtMs: number | null = null;
  cancelDeadline: CancelTimer | null = null;
  cancelResend: CancelTimer | null = null;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: LemonError) => void;

  constructor(
    node: NodeKey,
    options: CallOptions,
    payload: Uint8Array,
    launch: (flight: Flight) => void,
    resolve: (result: unknown) => void,
    reject: (error: LemonError) => void,
  ) {
    this.node = node;
    this.caller = options.caller ?? UNNAMED_CALLER;
    this.mutation = options.mutation;
    this.answer = new AnswerReader(options.mutation);
    this.payload = payload;
    this.waitingBytes = payload.length;
    this.bytes =
      payload.length + (options.answerBytes ?? DEFAULT_ANSWER_BYTES) + MESSAGE_OVERHEAD_BYTES;
    this.#launch = launch;
    this.resolve = resolve;
    this.reject = reject;
  }

  start(): void {
    this.#launch(this);
  }
}
