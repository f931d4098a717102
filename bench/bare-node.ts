/** Owns the least that a server in Node.js can be: node:http on a UNIX socket, one `.ts` in a process of its own. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";

export interface BareNode {
  readonly pid: number;
  kill(): Promise<void>;
}

export async function bareNode(socketPath: string): Promise<BareNode> {
  const child = fork(new URL(import.meta.url), [socketPath]);
  await once(child, "message");
  return {
    pid: child.pid ?? 0,
    async kill() {
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    },
  };
}

if (import.meta.main) {
  const server = createServer((_request, response) => {
    response.writeHead(200, { "Content-Type": "application/json" }).end("{}\n");
  });
  server.listen(process.argv[2], () => process.send?.("ready"));
  process.once("disconnect", () => process.exit());
}
