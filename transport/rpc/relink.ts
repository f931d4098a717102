/**
 * Owns the short stillness in which a node renews its link, so that no call and no answer is on the
 * wire while the old one goes.
 *
 * The node asks for a pause over the link itself. Everything travels in order on it, so when the answer
 * is there, every call sent before has arrived, and every answer given before has been delivered.
 */
import type { NatsConnection } from "@nats-io/transport-node";
import type { Clock } from "../../host/clock.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeKey } from "../../protocol/ids.ts";
import type { RpcCaller } from "./caller.ts";
import { type NodeRequestHandler, requestController } from "./requests.ts";
import type { RpcServer } from "./server.ts";

const PAUSE = "pause";
const RESUME = "resume";
const PAUSE_TIMEOUT_MS = 1_000;
/** How long the new link is asked whether it carries, and how often, in ms. */
const RESUME_WITHIN_MS = 3_000;
const RESUME_EVERY_MS = 5;

/** The controller's part, to be served with its other node requests. */
export function relinkHandlers(
  caller: Pick<RpcCaller, "hold" | "resume">,
): Readonly<Record<typeof PAUSE | typeof RESUME, NodeRequestHandler>> {
  return {
    [PAUSE]: (from) => {
      caller.hold(from);
      return null;
    },
    [RESUME]: (from) => {
      caller.resume(from);
      return null;
    },
  };
}

export interface QuiesceOptions {
  readonly connection: NatsConnection;
  readonly nodeKey: NodeKey;
  readonly server: Pick<RpcServer, "hold" | "resume">;
  readonly clock: Clock;
}

/** What a renewal holds still. */
export interface Quiesce {
  /** Asks the controller to send nothing; resolves when all it sent before has arrived. */
  pauseController(): Promise<void>;
  /** Resolves when the controller has answered over the new link; rejects with `node_offline` after 3 s. */
  resumeController(): Promise<void>;
  holdAnswers(): void;
  releaseAnswers(): void;
}

/** The node's part, for `LeafLink.renew`. */
export function quiesce(options: QuiesceOptions): Quiesce {
  const { connection, nodeKey, server, clock } = options;
  const ask = (name: string, deadlineMs: number): Promise<unknown> =>
    requestController(connection, nodeKey, name, null, { deadlineMs, mutation: false });
  return {
    async pauseController() {
      await ask(PAUSE, PAUSE_TIMEOUT_MS);
    },
    async resumeController() {
      const untilMs = clock.monotonicMs() + RESUME_WITHIN_MS;
      for (;;) {
        try {
          await ask(RESUME, PAUSE_TIMEOUT_MS);
          return;
        } catch (failure) {
          // Nobody there yet: the hub's interest follows the link by a moment.
          if (clock.monotonicMs() >= untilMs)
            throw new LemonError("node_offline", { cause: failure });
        }
        await new Promise<void>((resolve) => clock.after(RESUME_EVERY_MS, resolve));
      }
    },
    holdAnswers: () => server.hold(),
    releaseAnswers: () => server.resume(),
  };
}
