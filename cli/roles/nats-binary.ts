/** Owns the way to a nats-server that a role can run: found, or fetched on first use. */

import { LemonError } from "../../protocol/errors.ts";
import { ensureNatsServer, NatsServerError } from "../../scripts/nats-server.mjs";
import type { NatsServerBinary } from "../../transport/nats-server/server.ts";

/** Errors: `nats_server_missing`, `nats_server_too_old`, `nats_server_failed`; each one line that says what helps. */
export async function natsServerBinary(
  environment: Readonly<Record<string, string | undefined>>,
  say: (line: string) => void,
): Promise<NatsServerBinary> {
  try {
    return await ensureNatsServer({ env: environment, say });
  } catch (failure) {
    if (!(failure instanceof NatsServerError)) throw failure;
    throw new LemonError(CODES[failure.reason], { message: failure.message });
  }
}

const CODES = {
  missing: "nats_server_missing",
  too_old: "nats_server_too_old",
  unusable: "nats_server_failed",
} as const;
