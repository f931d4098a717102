/** Owns how a command of `lemon host` reaches the host-agent. */
import { isAbsolute, resolve } from "node:path";
import { unconnectedCode } from "../../client/host-agent/errors.ts";
import { HostAgent, HostAgentCallError } from "../../client/host-agent/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { Shell } from "../shell.ts";

export interface HostFlags {
  readonly socket?: string;
}

const SOCKET = "/var/run/malmo/agent.sock";

const ADVICE = {
  unreachable:
    "nobody answers on the socket; nothing was sent: start lemon host-agent, or name its socket (--socket)",
  "no-access":
    "this account may not open the socket; nothing was sent: run this as root or as the account in the socket's group, or name another socket (--socket)",
} as const;

/** What is told when there is no connection at all. */
export function unconnected(cause: unknown, code = unconnectedCode(cause)): LemonError {
  return new LemonError(code === "no-access" ? "permission_denied" : "unavailable", {
    message: ADVICE[code],
    cause,
  });
}

export function socketPath(shell: Shell, { socket }: HostFlags): string {
  const path = socket || shell.environment["MALMO_AGENT_SOCK"] || SOCKET;
  return isAbsolute(path) ? path : resolve(shell.cwd, path);
}

export async function withHost<T>(
  shell: Shell,
  flags: HostFlags,
  work: (host: HostAgent) => Promise<T>,
): Promise<T> {
  const host = new HostAgent({ socketPath: socketPath(shell, flags), timers: shell.timers });
  try {
    return await work(host);
  } catch (failure) {
    if (!(failure instanceof HostAgentCallError)) throw failure;
    const { code } = failure;
    throw code === "unreachable" || code === "no-access" ? unconnected(failure, code) : failure;
  } finally {
    host.close();
  }
}
