/**
 * Owns the proof that an acknowledged put is on disk: every server that holds the stream says
 * `sync_always` and has at least the floor's version. What a server does not say counts as no.
 *
 * Source: `$SYS.REQ.SERVER.PING.JSZ` (nats-server, monitoring over the system account).
 */
import type { StreamInfo } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { z } from "zod";
import { isNewEnough } from "../nats-server/version.ts";

const jszAnswer = z.object({
  server: z.object({ name: z.string(), id: z.string(), ver: z.string() }),
  data: z.object({ config: z.object({ sync_always: z.boolean().optional() }).optional() }),
});

/** How long servers may take to answer; a proof that comes later is asked for again. */
const PROOF_TIMEOUT_MS = 2_000;

/**
 * Whether every holder of the stream syncs before it acknowledges. `serverId` is the server that the
 * store's connection talks to; alone, it is the one holder. In a cluster the stream names its holders.
 */
export async function provesDurability(
  sys: NatsConnection,
  serverId: string,
  stream: Pick<StreamInfo, "cluster">,
): Promise<boolean> {
  const holders = holdersOf(stream);
  const needed = new Set(holders ?? [serverId]);
  try {
    const answers = await sys.requestMany(
      "$SYS.REQ.SERVER.PING.JSZ",
      JSON.stringify({ config: true }),
      { maxWait: PROOF_TIMEOUT_MS, maxMessages: -1 },
    );
    for await (const answer of answers) {
      const parsed = jszAnswer.safeParse(answer.json<unknown>());
      if (!parsed.success) continue;
      const { server, data } = parsed.data;
      const name = holders === null ? server.id : server.name;
      if (!needed.has(name)) continue;
      if (data.config?.sync_always !== true || !isNewEnough(server.ver)) return false;
      needed.delete(name);
      if (needed.size === 0) return true;
    }
  } catch {
    // No system account, no right to ask, no connection: no proof.
  }
  return false;
}

/** Names of the servers that hold the stream; null outside a cluster. */
function holdersOf({ cluster }: Pick<StreamInfo, "cluster">): string[] | null {
  if (cluster?.leader === undefined || cluster.name === undefined) return null;
  return [cluster.leader, ...(cluster.replicas ?? []).map(({ name }) => name)];
}
