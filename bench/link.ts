/**
 * Measures the node link beside what it stands on, in one run: what a call costs beside two bare
 * requests, what an account costs, and what one node can do to another through the controller's port.
 * `node bench/link.ts [--json]`.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { createUser } from "@nats-io/nkeys";
import { jwtAuthenticator } from "@nats-io/transport-node";
import { refuseLeaf } from "../gateways/http/leaf-refusal.ts";
import { systemClock } from "../host/clock.ts";
import type { NodeKey } from "../protocol/ids.ts";
import { startController } from "../test/support/link-fleet.ts";
import { openRawLeaf } from "../test/support/raw-leaf.ts";
import { createLeafProxy, type LeafProxy } from "../transport/link/proxy.ts";
import { createRation, type Ration } from "../transport/link/ration.ts";
import type { PeerWelcome } from "./link-peer.ts";
import { Report } from "./report.ts";

const ROUNDS = 3;
const CALLS = 500;
const TRANSFERS = 32;
const TRANSFERS_AT_ONCE = 4;
/** What the kernel's and the hub's buffers still hold when a flood ends. */
const CALM_MS = 1_000;
const PAYLOAD = "x".repeat(256);

/** No ration at all: what the line does when nobody shares it. */
const FREE: Ration = {
  join: () => ({ took: () => undefined, gave: () => undefined, leave: () => undefined }),
};

const controller = await startController();
const report = new Report("link");
const rationed = await port(createRation({ clock: systemClock }));
const free = await port(FREE);

await accounts();
await calls();
await transfers();
await floods();
report.print();
for (const { server, proxy } of [rationed, free]) {
  proxy.close();
  server.close();
}
await controller[Symbol.asyncDispose]();

interface Port {
  readonly url: string;
  readonly server: Server;
  readonly proxy: LeafProxy;
}

/** The controller's port, with a ration of its own. */
async function port(ration: Ration): Promise<Port> {
  const hubWebsocket = { host: "127.0.0.1", port: controller.hub.child.ports.websocket };
  const proxy = createLeafProxy({
    hubWebsocket,
    refuse: refuseLeaf,
    clock: systemClock,
    log: controller.log.log,
    ration,
  });
  const server = createServer();
  server.on("upgrade", proxy.upgrade);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`, server, proxy };
}

interface Peer {
  readonly key: NodeKey;
  tell(order: unknown): Promise<unknown>;
  end(): Promise<void>;
}

async function peer(role: "node" | "flood", { url }: Port): Promise<Peer> {
  const child: ChildProcess = fork(fileURLToPath(new URL("link-peer.ts", import.meta.url)), [role]);
  const heard = async (): Promise<unknown> => (await once(child, "message"))[0];
  const { linkKey } = (await heard()) as { readonly linkKey: string };
  const key = await controller.link.provision();
  const jwt = await controller.link.issue(key, linkKey, { expiresInMs: 3_600_000 });
  const welcome: PeerWelcome = { key, jwt, url };
  child.send(welcome);
  await heard();
  return {
    key,
    async tell(order) {
      const answer = heard();
      child.send(order as object);
      return await answer;
    },
    async end() {
      child.send("end");
      await once(child, "exit");
    },
  };
}

function call(key: NodeKey, method: string, params: unknown = null): Promise<unknown> {
  const forWhom = { generation: 1, deadlineMs: 60_000, mutation: false };
  return controller.caller.call(key, { method, params, ...forWhom });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const fromMs = performance.now();
  await work();
  return performance.now() - fromMs;
}

/** An account made, credentials signed, a key cut off while its link stands. */
async function accounts(): Promise<void> {
  for (let round = 0; round < 20; round++) {
    const key = createUser();
    let node = "" as NodeKey;
    let jwt = "";
    report.sample(
      "provision an account",
      await timed(async () => {
        node = await controller.link.provision();
      }),
      { unit: "ms" },
    );
    report.sample(
      "issue credentials",
      await timed(async () => {
        jwt = await controller.link.issue(node, key.getPublicKey(), { expiresInMs: 60_000 });
      }),
      { unit: "ms" },
    );
    const raw = await openRawLeaf({ url: free.url, jwt, key, serverName: `n-${round}` });
    report.sample(
      "revoke credentials, until the link is cut",
      await timed(async () => {
        await controller.link.revoke(node, [key.getPublicKey()]);
        await raw.closed;
      }),
      { unit: "ms" },
    );
  }
}

/** A call and its answer of 256 bytes, beside a bare request on the hub and one on the leaf. */
async function calls(): Promise<void> {
  const node = await peer("node", rationed);
  const { jwt, seed } = controller.authority.controllerCredentials;
  const answers = await controller.hub.connect({ authenticator: jwtAuthenticator(jwt, seed) });
  answers.subscribe("bench.echo", {
    callback: (_error, message) => void message.respond(message.data),
  });
  await answers.flush();
  for (let round = 0; round <= ROUNDS; round++) {
    const { ms: leafMs } = (await node.tell({ requests: CALLS, payload: PAYLOAD })) as {
      readonly ms: number[];
    };
    for (let at = 0; at < CALLS; at++) {
      const hubMs = await timed(() => controller.connection.request("bench.echo", PAYLOAD));
      const callMs = await timed(() => call(node.key, "echo", PAYLOAD));
      if (round === 0) continue;
      report.sample("bare request on the hub", hubMs, { unit: "ms" });
      report.sample("bare request on the leaf", leafMs[at] ?? Number.NaN, { unit: "ms" });
      report.sample("call through the link", callMs, {
        unit: "ms",
        of: ["bare request on the hub", "bare request on the leaf"],
        atMost: 2.5,
      });
    }
  }
  await answers.close();
  await node.end();
}

/** A node alone that sends 1 MiB answers, with the ration and without. */
async function transfers(): Promise<void> {
  const ways = [
    { name: "lone transfer without a ration", node: await peer("node", free), promise: {} },
    {
      name: "lone transfer",
      node: await peer("node", rationed),
      promise: { of: "lone transfer without a ration", atLeast: 0.9 },
    },
  ];
  for (let round = 0; round <= 2 * ROUNDS; round++) {
    for (const { name, node, promise } of ways) {
      let left = TRANSFERS;
      const send = async (): Promise<void> => {
        while (left-- > 0) await call(node.key, "mib");
      };
      const ms = await timed(() => Promise.all(Array.from({ length: TRANSFERS_AT_ONCE }, send)));
      if (round === 0) continue;
      report.sample(name, TRANSFERS / (ms / 1_000), { unit: "MiB/s", ...promise });
    }
  }
  for (const { node } of ways) await node.end();
}

/** Another node's calls while one floods: the p99 of each round is a sample. */
async function floods(): Promise<void> {
  for (const [which, through] of [
    ["", rationed],
    [" without a ration", free],
  ] as const) {
    const node = await peer("node", through);
    const flood = await peer("flood", through);
    for (let round = 0; round <= ROUNDS; round++) {
      const quiet = await p99(node.key);
      await flood.tell("flood");
      const fromMs = performance.now();
      const flooded = await p99(node.key);
      const { sent } = (await flood.tell("calm")) as { readonly sent: number };
      const rate = sent / ((performance.now() - fromMs) / 1_000);
      await new Promise((resolve) => setTimeout(resolve, CALM_MS));
      if (round === 0) continue;
      report.sample(`p99 of calls, nobody floods${which}`, quiet, { unit: "ms" });
      report.sample(`p99 of calls during a flood${which}`, flooded, {
        unit: "ms",
        of: `p99 of calls, nobody floods${which}`,
        ...(which === "" ? { atMost: 2 } : {}),
      });
      report.sample(`messages of the flood${which}`, rate, { unit: "/s" });
    }
    await flood.end();
    await node.end();
  }
}

async function p99(key: NodeKey): Promise<number> {
  const ms: number[] = [];
  for (let at = 0; at < CALLS; at++) ms.push(await timed(() => call(key, "echo", PAYLOAD)));
  return ms.sort((a, b) => a - b)[Math.floor(CALLS * 0.99)] ?? Number.NaN;
}
