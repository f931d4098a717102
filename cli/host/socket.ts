/** Owns how a command of `lemon host` reaches the host-agent. */
import { isAbsolute, resolve } from "node:path";
import { HostAgent, HostAgentCallError } from "../../client/host-agent/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { Shell } from "../shell.ts";

export interface HostFlags {
  readonly socket?: string;
}

const SOCKET = "/var/run/malmo/agent.sock";

/** What is told when there is no connection at all. */
export const NOBODY =
  "nobody answers on the socket; nothing was sent: start lemon host-agent, or name its socket (--socket)";

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
    if (!(failure instanceof HostAgentCallError) || failure.code !== "unreachable") throw failure;
    throw new LemonError("unavailable", { message: NOBODY, cause: failure });
  } finally {
    host.close();
  }
}
