/**
 * Owns the nats-server child as an actor: permanent, so that a server that crashed is started again
 * by the supervisor with its back-off, on the same ports and the same store.
 *
 * 1. One life of the actor has at most one server; when the actor ends, its server has ended.
 * 2. A server that ends unasked ends the actor's life as a crash. An asked-for restart does not, so
 *    it does not count against the restart intensity.
 * 3. Every life has the ports of the first: who connects to the server knows no others.
 * 4. A server that hangs is no better than one that crashed: it is killed, and then it is one.
 */

import { LemonError } from "../../protocol/errors.ts";
import type { ActorContext, ActorSpec, Behaviour } from "../../supervision/actor.ts";
import type { ServerPorts } from "./config.ts";
import { listenForBeats } from "./heartbeat.ts";
import {
  type NatsServer,
  type NatsServerChild,
  type NatsServerHost,
  type NatsServerSpec,
  startNatsServer,
} from "./server.ts";

/** A server of our own, and where it listens. */
export type OwnServer = NatsServer & Pick<NatsServerChild, "ports">;

export type NatsServerMessages = {
  /** The server that runs now. */
  current: (nothing: null) => OwnServer;
  /**
   * Stops the server with this id and starts the next: after a full disk JetStream takes nothing
   * until then. Answers with the running one at once when that id is gone already, so that several
   * who saw the same failure cause one restart.
   */
  restart: (replace: { readonly serverId: string }) => OwnServer;
  /** Has the configuration, as the specification gives it now, written and read. */
  reload: (nothing: null) => void;
};

/** Longer than a server gets to stop in order. */
const SHUTDOWN_MS = 10_000;

export function natsServerActor(spec: NatsServerSpec): ActorSpec<NatsServerMessages> {
  let ports: ServerPorts | undefined;
  const start = async (host: NatsServerHost): Promise<NatsServerChild> => {
    const server = await startNatsServer(ports === undefined ? spec : { ...spec, ports }, host);
    ports = server.ports;
    return server;
  };
  return {
    id: "nats-server",
    kind: "nats-server",
    restart: "permanent",
    shutdownMs: SHUTDOWN_MS,
    start: (context) => startLife(start, context),
  };
}

async function startLife(
  startServer: (host: NatsServerHost) => Promise<NatsServerChild>,
  context: ActorContext<NatsServerMessages>,
): Promise<Behaviour<NatsServerMessages>> {
  let stopListening = (): void => {};
  let server = await start();

  async function start(): Promise<NatsServerChild> {
    const started = await startServer(context);
    stopListening = listenForBeats(started.ports.client, context.clock, (silentMs) => {
      context.log.error(
        { serverPid: started.pid, silentMs },
        "nats-server does not answer any more; killing it",
      );
      started.kill();
      context.crash(new LemonError("nats_server_silent"));
    });
    void started.exited.then((exit) => {
      if (exit.ordered) return;
      stopListening();
      context.crash(new LemonError("nats_server_failed"));
    });
    return started;
  }

  async function stop(): Promise<void> {
    stopListening();
    await server.stop();
  }

  return {
    handlers: {
      current: () => describe(server),
      async restart({ serverId }) {
        if (server.serverId !== serverId) return describe(server);
        await stop();
        try {
          server = await start();
          context.beganAnew();
        } catch (failure) {
          context.crash(failure);
          throw failure;
        }
        // This life may have been abandoned meanwhile: nobody else would stop the new server.
        if (context.signal.aborted) await stop();
        return describe(server);
      },
      reload: () => server.reload(),
    },
    stop,
  };
}

function describe({ clientUrl, serverId, version, ports }: OwnServer): OwnServer {
  return { clientUrl, serverId, version, ports };
}
