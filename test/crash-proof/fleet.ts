/**
 * Owns a real controller and a real node for a crash run: separate processes with a nats-server each,
 * the link through a proxy that can be cut, the node's state on a disk that can be filled. Whatever
 * ends is started again, as a service manager would.
 */
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { signalProcess } from "../../host/process-identity.ts";
import { type RoleEvent, RoleProcess } from "../support/role-process.ts";
import { type SmallDisk, smallDisk } from "../support/small-disk.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";
import { tempFolder } from "../support/temp-folder.ts";

const NODE_NAME = "worker";
export const OPERATOR_TOKEN = "crash-proof-operator-token-0123456789";
/** Room for the store of a thousand ids; small enough to be filled at once. */
const DISK_BYTES = 96 * 1024 * 1024;

export type Victim = "controller" | "worker" | "hub" | "leaf";

export interface CrashFleet extends AsyncDisposable {
  /** `/ws` of the controller, without the proxy. */
  readonly url: string;
  readonly nodeId: string;
  /** A folder the node's commands may write in. */
  readonly work: string;
  /** Null where this account may not have a small disk. */
  readonly disk: SmallDisk | null;
  readonly proxy: TcpProxy;
  /** kill -9; whatever it is comes back by itself. False when it was down already. */
  kill(victim: Victim): Promise<boolean>;
  /** How often a role ended without being killed by us, with its log's last lines. */
  readonly unasked: readonly string[];
}

/** One role that is started again whenever it ends. */
class Kept {
  readonly unasked: string[] = [];
  readonly #start: () => RoleProcess;
  readonly #ready: string;
  role: RoleProcess;
  #stopped = false;
  #killed = false;
  #following: Promise<void>;

  constructor(start: () => RoleProcess, ready: string) {
    this.#start = start;
    this.#ready = ready;
    this.role = start();
    this.#following = this.#follow();
  }

  async ready(): Promise<RoleEvent> {
    return await this.role.said(this.#ready);
  }

  kill(): boolean {
    if (!this.role.running) return false;
    this.#killed = true;
    return this.role.child.kill("SIGKILL");
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.role.child.kill("SIGTERM");
    await this.#following;
  }

  async #follow(): Promise<void> {
    for (;;) {
      await this.role.ended();
      if (this.#stopped) return;
      if (!this.#killed) this.unasked.push(this.role.log.slice(-1_000));
      this.#killed = false;
      this.role = this.#start();
    }
  }
}

export async function startCrashFleet(): Promise<CrashFleet> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(tempFolder());
  const disk = await smallDisk(DISK_BYTES);
  if (disk !== null) stack.use(disk);
  const controllerHome = join(folder.path, "controller");
  const nodeHome = disk === null ? join(folder.path, "node") : join(disk.path, "node");
  const work = join(folder.path, "work");
  await mkdir(work);

  // The first start takes a free port; the later ones keep it.
  let port = "0";
  const controller = new Kept(
    () =>
      new RoleProcess(["start", "--port", port], {
        home: controllerHome,
        environment: { LEMON_CONTROL_PLANE_OPERATOR_TOKEN: OPERATOR_TOKEN },
      }),
    "ready",
  );
  stack.defer(() => controller.stop());
  const ready = await controller.ready();
  port = String(ready["port"]);
  const proxy = stack.use(await tcpProxy(Number(port)));

  const worker = new Kept(
    () =>
      new RoleProcess(
        [
          "node",
          "join",
          "--name",
          NODE_NAME,
          "--controller",
          `${proxy.url.replace("nats:", "ws:")}/ws`,
          "--cwd",
          work,
          "--allowed-root",
          work,
        ],
        { home: nodeHome, environment: { LEMON_NODE_OPERATOR_TOKEN: OPERATOR_TOKEN } },
      ),
    "joined",
  );
  stack.defer(() => worker.stop());
  const joined = await worker.ready();

  const nodeId = String(joined["nodeId"]);
  const servers = {
    hub: join(controllerHome, "controller", "hub", "server.json"),
    leaf: join(nodeHome, "nodes", NODE_NAME, "server", nodeId, "server.json"),
  };
  const owned = stack.move();
  return {
    url: String(ready["url"]),
    nodeId,
    work,
    disk,
    proxy,
    get unasked() {
      return [...controller.unasked, ...worker.unasked];
    },
    async kill(victim) {
      if (victim === "controller") return controller.kill();
      if (victim === "worker") return worker.kill();
      return await killServer(servers[victim]);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Kills the nats-server that a record names, when it is still that very process. */
async function killServer(record: string): Promise<boolean> {
  const text = await readFile(record, "utf8").catch(() => null);
  if (text === null) return false;
  const { server } = serverRecord.parse(JSON.parse(text));
  return signalProcess(server, "SIGKILL");
}

const serverRecord = z.object({ server: z.object({ pid: z.number(), startTime: z.string() }) });
