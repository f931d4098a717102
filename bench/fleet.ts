/**
 * Owns what benchmarks of nodes run against: the real roles, each in a process of its own, and bare NATS
 * servers beside them.
 */
import { connect as connectNats } from "@nats-io/transport-node";
import { startServer } from "../test/support/nats.ts";
import { RoleProcess } from "../test/support/role-process.ts";
import { tempFolder } from "../test/support/temp-folder.ts";

export const TOKEN = "bench-operator-token-0123456789";

const PAYLOAD = new Uint8Array(256);

/** Two plain servers, a leaf between them, somebody who answers 256 bytes on each. */
export async function bareNats(
  stack: AsyncDisposableStack,
): Promise<{ hub: () => Promise<unknown>; leaf: () => Promise<unknown> }> {
  const hub = stack.use(
    await startServer(({ ports, portsDirectory }) =>
      [
        `listen: "127.0.0.1:${ports.client}"`,
        `ports_file_dir: "${portsDirectory}"`,
        `leafnodes { listen: "127.0.0.1:${ports.leaf}" }`,
      ].join("\n"),
    ),
  );
  const leaf = stack.use(
    await startServer(({ ports, portsDirectory }) =>
      [
        `listen: "127.0.0.1:${ports.client}"`,
        `ports_file_dir: "${portsDirectory}"`,
        `leafnodes { remotes: [ { url: "nats://127.0.0.1:${hub.child.ports.leaf}" } ] }`,
      ].join("\n"),
    ),
  );
  const asking = await connectNats({ servers: hub.child.clientUrl });
  stack.defer(() => asking.close());
  for (const { server, subject } of [
    { server: hub, subject: "bench.hub" },
    { server: leaf, subject: "bench.leaf" },
  ]) {
    const answering = await connectNats({ servers: server.child.clientUrl });
    stack.defer(() => answering.close());
    answering.subscribe(subject, {
      callback: (_error, message) => void message.respond(message.data),
    });
    await answering.flush();
  }
  const ask = (subject: string) => () => asking.request(subject, PAYLOAD, { timeout: 2_000 });
  const through = ask("bench.leaf");
  // The hub hears of the leaf's interest a moment later.
  while ((await through().catch(() => null)) === null);
  return { hub: ask("bench.hub"), leaf: through };
}

/** A controller and a joined node, each a process with a nats-server of its own; `cwd` is the node's root. */
export async function startFleet(
  stack: AsyncDisposableStack,
  cwd?: string,
): Promise<{ url: string; nodeId: string }> {
  const folder = stack.use(tempFolder());
  const environment = {
    LEMON_CONTROL_PLANE_OPERATOR_TOKEN: TOKEN,
    LEMON_NODE_OPERATOR_TOKEN: TOKEN,
    LEMON_LOG_LEVEL: "warn",
    ...profiling(),
  };
  const controller = new RoleProcess(["start", "--port", "0"], {
    home: `${folder.path}/c`,
    environment,
  });
  stack.defer(async () => void (await controller.end("SIGTERM")));
  const { url } = await controller.said("ready");
  const place = cwd === undefined ? [] : ["--cwd", cwd, "--allowed-root", cwd];
  const node = new RoleProcess(
    ["node", "join", "--name", "bench", "--controller", String(url), ...place],
    { home: `${folder.path}/n`, environment },
  );
  stack.defer(async () => void (await node.end("SIGTERM")));
  const { nodeId } = await node.said("joined");
  return { url: String(url), nodeId: String(nodeId) };
}

/** With `NODE_OPTIONS` of its own (`--cpu-prof`) a benchmark says where the time goes. */
function profiling(): Readonly<Record<string, string>> {
  const { NODE_OPTIONS } = process.env;
  return NODE_OPTIONS === undefined ? {} : { NODE_OPTIONS };
}
