/**
 * Owns the requests of one admitted caller, from the frame to the answer.
 *
 * 1. Every request gets exactly one answer, unless its connection ends first; none waits for another.
 * 2. An id is in flight once, and at most `MAX_IN_FLIGHT` requests are; answers that wait for the socket are
 *    bounded by their bytes (the gateway stops reading, large reads wait for room). `health` is answered
 *    always, since clients tell by it that we live.
 * 3. Nothing of an unexpected failure reaches the wire or the log but its class.
 */
import type { Logger } from "pino";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import { errorText, type RequestFrame } from "../../protocol/frames.ts";
import { codeOf, logFrames } from "../../supervision/log.ts";
import { isThenable } from "../../supervision/outcome.ts";
import { AnswerRoom } from "./answer-room.ts";
import { answerText, type LongText } from "./answer-text.ts";
import type { Connection } from "./connection.ts";
import type { Caller } from "./handler.ts";
import type { Admitted, Route, Routes } from "./routes.ts";

/** Requests in flight on one connection (rulings). */
export const MAX_IN_FLIGHT = 256;

/** What a handler that knows its deadline gets beyond it, in ms; below what clients wait (6 s). */
const HANDLER_GRACE_MS = 5_000;

const ALWAYS_SERVED = "health";

export interface RequestsSetting {
  readonly routes: Routes;
  readonly connection: Connection;
  readonly caller: Caller;
  readonly clock: Clock;
  /** Its lines hold codes and method names only. */
  readonly log: Logger;
  /** Largest answer, in bytes (`policy.maxPayload`). */
  readonly maxPayload: number;
  /** Holds every result against its declaration; for tests, since it costs as much again. */
  readonly checkResults: boolean;
  /** Ends the session: something here is not as this code believes. */
  readonly crash: (error: unknown) => void;
}

interface InFlight {
  /** Of the timer that ends a handler's time. */
  readonly cancelBackstop: CancelTimer;
  /** Room that is kept for its answer. */
  readonly answerBytes: number;
}

/** It waits for the room that its answer may take. */
const NOT_BEGUN: InFlight = { cancelBackstop() {}, answerBytes: 0 };

export class Requests {
  readonly #setting: RequestsSetting;
  readonly #inFlight = new Map<string, InFlight>();
  readonly #room: AnswerRoom;
  #state: "open" | "draining" | "ended" = "open";
  #tellSettled: () => void = () => {};

  constructor(setting: RequestsSetting) {
    this.#setting = setting;
    this.#room = new AnswerRoom(() => setting.connection.unsentAnswerBytes);
  }

  handle({ id, method, params }: RequestFrame): void {
    const { routes, caller } = this.#setting;
    let route: Route | null = null;
    try {
      route = routes.find(method);
      this.#refuseBeyondBounds(id, method);
      const admitted = route.admit(params, caller);
      if (admitted.answerBytes > 0) this.#beginWithRoom(id, route, admitted);
      else this.#begin(id, route, admitted);
    } catch (failure) {
      this.#fail(id, route, failure);
    }
  }

  /** The reader has taken some of what waited for it. */
  answersSent(): void {
    this.#room.next();
  }

  /** Refuses what comes from now on; resolves when everything in flight has been answered. */
  drain(): Promise<void> {
    if (this.#state === "open") this.#state = "draining";
    if (this.#inFlight.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#tellSettled = resolve;
    });
  }

  /** Answers nothing any more; work with effects goes on by itself. */
  end(): void {
    this.#state = "ended";
    for (const { cancelBackstop } of this.#inFlight.values()) cancelBackstop();
    this.#inFlight.clear();
    this.#room.end();
    this.#tellSettled();
  }

  #refuseBeyondBounds(id: string, method: string): void {
    if (this.#inFlight.has(id)) throw new LemonError("duplicate_request_id");
    if (method === ALWAYS_SERVED) return;
    if (this.#state === "draining") {
      throw new LemonError("unavailable", {
        message: "The control plane is shutting down; nothing was done",
      });
    }
    if (this.#inFlight.size >= MAX_IN_FLIGHT) throw new LemonError("too_many_requests_in_flight");
  }

  #begin(id: string, route: Route, { run, deadlineMs }: Admitted): void {
    const result = run();
    if (isThenable(result)) this.#await(id, route, result, { deadlineMs, answerBytes: 0 });
    else this.#succeed(id, route, result);
  }

  /** In flight from now on, though it may begin later: its time is counted from then. */
  #beginWithRoom(id: string, route: Route, admitted: Admitted): void {
    this.#inFlight.set(id, NOT_BEGUN);
    this.#room.enter(admitted.answerBytes, () => {
      const result = (async () => admitted.run())();
      this.#await(id, route, result, admitted);
    });
  }

  #await(
    id: string,
    route: Route,
    result: PromiseLike<unknown>,
    { deadlineMs, answerBytes }: Pick<Admitted, "deadlineMs" | "answerBytes">,
  ): void {
    const cancelBackstop = this.#setting.clock.after(deadlineMs + HANDLER_GRACE_MS, () => {
      this.#setting.log.warn({ method: route.method }, "handler missed its deadline");
      this.#settle(id, inFlight, () => this.#fail(id, route, new LemonError("timeout")));
    });
    const inFlight = { cancelBackstop, answerBytes };
    this.#inFlight.set(id, inFlight);
    result.then(
      (value) => this.#settle(id, inFlight, () => this.#succeed(id, route, value)),
      (failure) => this.#settle(id, inFlight, () => this.#fail(id, route, failure)),
    );
  }

  /** The first of result, failure and backstop answers; the id is free again with its answer. */
  #settle(id: string, inFlight: InFlight, answer: () => void): void {
    if (this.#inFlight.get(id) !== inFlight) return;
    try {
      inFlight.cancelBackstop();
      this.#inFlight.delete(id);
      answer();
      if (inFlight.answerBytes > 0) this.#room.leave(inFlight.answerBytes);
      if (this.#inFlight.size === 0) this.#tellSettled();
    } catch (error) {
      this.#setting.crash(error);
    }
  }

  #succeed(id: string, route: Route, result: unknown): void {
    const { checkResults, connection, maxPayload } = this.#setting;
    let text: string | LongText;
    try {
      if (checkResults && !route.declares(result)) throw new TypeError("not the declared result");
      text = answerText(id, result);
    } catch (failure) {
      this.#fail(id, route, failure);
      return;
    }
    if (isLargerThan(maxPayload, text)) this.#fail(id, route, new LemonError("response_too_large"));
    else connection.answer(text);
  }

  #fail(id: string, route: Route | null, failure: unknown): void {
    const { connection, log } = this.#setting;
    let error: LemonError;
    if (failure instanceof LemonError) {
      error = route?.retrySafe === true ? repeatable(failure) : failure;
    } else {
      error = new LemonError("internal_error");
      const fields = { method: route?.method };
      log.error({ ...fields, code: codeOf(failure) }, "method failed unexpectedly");
      logFrames(log, fields, failure);
    }
    connection.answer(errorText(id, error, route?.mutation ?? false));
  }
}

/** Where the call may be repeated after a lost answer, it may be after one that never came. */
function repeatable(error: LemonError): LemonError {
  const { code, wire, message, details, mutationMayHaveApplied } = error;
  const isLost = mutationMayHaveApplied && (wire === "TIMEOUT" || wire === "UNAVAILABLE");
  if (!isLost || error.retrySafe) return error;
  return new LemonError(code, { wire, message, details, mutationMayHaveApplied, retrySafe: true });
}

/** UTF-8 takes one to three bytes a UTF-16 unit, so most texts need no counting. */
function isLargerThan(maxBytes: number, text: string | LongText): boolean {
  if (typeof text !== "string") return text.length > maxBytes;
  if (text.length * 3 <= maxBytes) return false;
  return text.length > maxBytes || Buffer.byteLength(text) > maxBytes;
}
