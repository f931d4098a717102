/** Owns how a command connects: one attempt, with the target's token and authorities. */
import { type Client, type ConnectOptions, connect } from "../client/index.ts";
import { type SocketSettings, socketOpener } from "../client/node/socket.ts";
import type { Report } from "./report.ts";
import type { Shell } from "./shell.ts";
import { resolveTarget, type Target, type TargetFlags } from "./target.ts";

const CLIENT_ID = "lemon-cli";

/** The client's options for a target; the caller closes what it opens. */
export function connectOptions(shell: Shell, { url, token, ...trust }: Target): ConnectOptions {
  return {
    url,
    token,
    clientId: CLIENT_ID,
    openSocket: socketOpener(trustOf(trust)),
    timers: shell.timers,
  };
}

/** Whom a command trusts to be its target. */
export function trustOf({ ca, certificate }: Pick<Target, "ca" | "certificate">): SocketSettings {
  if (certificate !== null) return { certificate };
  return ca === null ? {} : { ca };
}

/** Runs `work` on a connection to the controller that the flags name, and closes it. */
export async function withController<T>(
  shell: Shell,
  report: Report,
  flags: TargetFlags,
  work: (client: Client, target: Target) => Promise<T>,
): Promise<T> {
  const target = await resolveTarget(shell, flags);
  if (target.warning !== null) await report.message(target.warning);
  const client = await connect(connectOptions(shell, target));
  try {
    return await work(client, target);
  } finally {
    client.close();
  }
}
