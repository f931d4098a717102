/** Owns what is said of a port that can not be listened on. */
import { LemonError } from "../../protocol/errors.ts";

function errnoOf(failure: unknown): unknown {
  return failure instanceof Error && "code" in failure ? failure.code : undefined;
}

/** `port_in_use` or `listen_refused`, each one clear line. */
export function listenFailure(failure: unknown, host: string, port: number): LemonError {
  const errno = errnoOf(failure);
  if (errno === "EADDRINUSE") {
    return new LemonError("port_in_use", {
      message: `Port ${port} is already in use on ${host}; stop what listens there or choose another with --port`,
      cause: failure,
    });
  }
  return new LemonError("listen_refused", {
    message: `Can not listen on ${host} port ${port} (${String(errno ?? "unknown")}); check --host and --port`,
    cause: failure,
  });
}
