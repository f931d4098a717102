/** Owns a run that a test of the roles has begun on a node: its caller's end of it, and its process. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Client } from "../../client/index.ts";
import type { ProcessIdentity } from "../../host/process-identity.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { identityOf } from "./native-run.ts";
import { type RoleStage, shellRun, until } from "./role-stage.ts";

export interface BegunRun {
  /** What its caller is told. */
  readonly receipt: Promise<ResultOf<"node.process.run">>;
  /** The run's own process and one that left its group and session. */
  readonly processes: readonly [ProcessIdentity, ProcessIdentity];
}

/** Starts a run that ends only when it is ended; resolves when both of its processes are there. */
export async function beginRun(
  stage: RoleStage,
  client: Client,
  nodeId: string,
  processId: string,
): Promise<BegunRun> {
  const file = join(stage.folder("user"), `${processId}.pids`);
  const script = `setsid sh -c 'echo $PPID $$ > "$1.made" && mv "$1.made" "$1"; exec sleep 600' sh "${file}" & wait`;
  const receipt = client.call("node.process.run", shellRun(nodeId, processId, script));
  receipt.catch(() => {});
  const text = await until("the run has begun", () =>
    existsSync(file) ? readFileSync(file, "utf8") : undefined,
  );
  const [own = "", stray = ""] = text.trim().split(" ");
  return { receipt, processes: [identityOf(Number(own)), identityOf(Number(stray))] };
}
