/**
 * Owns the sessions of a control plane: their supervisor, and the giving of a session to each open socket.
 * They stop together, each within its own time, so that ten thousand end as fast as the slowest one.
 */
import type { Logger } from "pino";
import type { Clock } from "../../host/clock.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import { POLICY, type Policy } from "../../protocol/frames.ts";
import type { SupervisorRef } from "../../supervision/actor.ts";
import { codeOf } from "../../supervision/log.ts";
import type { Broadcast } from "../events/broadcast.ts";
import type { Connection } from "./connection.ts";
import type { Authenticate, MethodHandlers, OnNode } from "./handler.ts";
import type { ServerIdentity } from "./handshake.ts";
import { Refusals } from "./refusals.ts";
import type { Roster } from "./roster.ts";
import { Routes } from "./routes.ts";
import { type SessionServices, type SessionTimes, sessionSpec } from "./session.ts";

export interface SessionsOptions {
  /** Where the supervisor of the sessions is started, under the id `sessions`. */
  readonly parent: SupervisorRef;
  /** Everything that is served. */
  readonly handlers: Partial<MethodHandlers>;
  readonly authenticate: Authenticate;
  readonly server: ServerIdentity;
  readonly roster: Roster;
  readonly broadcast: Broadcast;
  /** Default: nobody wants to know. */
  readonly onNode?: OnNode;
  readonly clock: Clock;
  readonly log: Logger;
  readonly policy?: Policy;
  readonly times?: Partial<SessionTimes>;
  /** Holds every result against its declaration, and answers `internal_error` when it differs. For tests. */
  readonly checkResults?: boolean;
}

const TIMES: SessionTimes = { handshakeMs: 10_000, drainMs: 3_000, farewellMs: 1_000 };

/** Close codes of RFC 6455 7.4.1. */
const GOING_AWAY = 1001;
const INTERNAL_ERROR = 1011;

export interface Sessions {
  /** Serves a socket from now on; it is closed when no session can be started for it. */
  open(connection: Connection): void;
  /** Ends them all, each within its own time, and takes no more. */
  stop(): Promise<void>;
}

export async function startSessions(options: SessionsOptions): Promise<Sessions> {
  const supervisor = await options.parent.startSupervisor({
    id: "sessions",
    strategy: "one_for_one",
    restart: "permanent",
    // Its children are temporary: it never restarts anything, and so never gives up.
    intensity: { restarts: 0, windowMs: 1_000 },
    backoff: { firstMs: 100, maxMs: 1_000, resetAfterMs: 10_000 },
    stopOrder: "together",
  });
  const services: SessionServices = {
    routes: new Routes(options.handlers),
    authenticate: options.authenticate,
    roster: options.roster,
    broadcast: options.broadcast,
    onNode: options.onNode ?? (() => {}),
    server: options.server,
    log: options.log,
    refusals: new Refusals(options.clock, options.log),
    policy: options.policy ?? POLICY,
    times: { ...TIMES, ...options.times },
    checkResults: options.checkResults ?? false,
  };
  return {
    open(connection) {
      supervisor.startActor(sessionSpec(connection, services)).catch((failure: unknown) => {
        const code = codeOf(failure);
        if (code === ("actor_unavailable" satisfies ErrorCode)) {
          void connection.close(GOING_AWAY, "server is shutting down");
          return;
        }
        options.log.warn({ code }, "no session could be started");
        void connection.close(INTERNAL_ERROR, "internal error");
      });
    },
    stop: () => supervisor.stop(),
  };
}
