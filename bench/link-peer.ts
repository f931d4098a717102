/**
 * A peer of bench/link.ts in a process of its own: `node`, an honest node that answers; or `flood`, a
 * machine that holds a node's credentials and sends small messages as fast as the line takes them. It
 * makes its own keys, tells its parent the public one, and gets its credentials from there.
 */
import { connect, nkeyAuthenticator } from "@nats-io/transport-node";
import type { NodeKey } from "../protocol/ids.ts";
import { startNode } from "../test/support/link-fleet.ts";
import { logLines } from "../test/support/log-lines.ts";
import { openRawLeaf } from "../test/support/raw-leaf.ts";
import { createWorkerLife } from "../transport/link/worker-life.ts";

export interface PeerWelcome {
  readonly key: NodeKey;
  readonly jwt: string;
  readonly url: string;
}

const MIB = Buffer.alloc(1024 * 1024, 1);
/** What a flood sends at once; and what it lets the line hold before it waits. */
const BATCH_MESSAGES = 500;
const UNSENT_BYTES = 1024 * 1024;

const role = process.argv[2];
const life = createWorkerLife();
const say = (message: object): void => void process.send?.(message);
const told = (): Promise<unknown> => new Promise((resolve) => process.once("message", resolve));

const orphaned = (): never => process.exit(1);
process.once("disconnect", orphaned);

say({ linkKey: life.link.getPublicKey() });
const welcome = (await told()) as PeerWelcome;
if (role === "node") await beNode(welcome);
else await beFlood(welcome);

async function beNode({ key, jwt, url }: PeerWelcome): Promise<void> {
  const handlers = { echo: (params: unknown) => params, mib: () => MIB };
  await using node = await startNode({ key, life, jwt, url, handlers, log: logLines("silent") });
  const authenticator = nkeyAuthenticator(life.store.getSeed());
  const servers = node.server.child.clientUrl;
  const asks = await connect({ servers, authenticator });
  const answers = await connect({ servers, authenticator });
  answers.subscribe("echo", { callback: (_error, message) => void message.respond(message.data) });
  await answers.flush();
  say({ ready: true });
  for (let order = await told(); order !== "end"; order = await told()) {
    const { requests, payload } = order as { readonly requests: number; readonly payload: string };
    const ms: number[] = [];
    for (let at = 0; at < requests; at++) {
      const fromMs = performance.now();
      await asks.request("echo", payload);
      ms.push(performance.now() - fromMs);
    }
    say({ ms });
  }
  await asks.close();
  await answers.close();
}

async function beFlood({ key, jwt, url }: PeerWelcome): Promise<void> {
  const { serverName, link } = life;
  const raw = await openRawLeaf({ url, jwt, key: link, serverName });
  const batch = `LMSG ctl.${key}.r.x 16\r\n${"x".repeat(16)}\r\n`.repeat(BATCH_MESSAGES);
  let flooding = false;
  let sent = 0;
  const flood = (): void => {
    if (!flooding) return;
    for (let at = 0; at < 20 && raw.unsent < UNSENT_BYTES; at++) {
      raw.send(batch);
      sent += BATCH_MESSAGES;
    }
    // The line is full, or nearly: no need to spin until it takes more.
    setTimeout(flood, 1);
  };
  say({ ready: true });
  for (let order = await told(); order !== "end"; order = await told()) {
    flooding = order === "flood";
    if (flooding) flood();
    say({ sent });
    sent = 0;
  }
  raw.close();
}
process.off("disconnect", orphaned);
process.disconnect();
