import { type ChildProcess, execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, watch } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createUser, type KeyPair } from "@nats-io/nkeys";
import { expect } from "chai";
import { z } from "zod";
import { waitForEnd } from "../../../host/process-identity.ts";
import { processReceipt } from "../../../protocol/process.ts";
import { identityOf, shell } from "../../support/native-run.ts";
import { startNodeServer, type TestNodeServer } from "../../support/nats.ts";
import { request } from "../../support/process-room.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const WORKER = fileURLToPath(new URL("../../support/process-worker.ts", import.meta.url));
const answer = z.object({
  n: z.int().optional(),
  receipt: processReceipt.optional(),
  code: z.string().optional(),
});

class Worker {
  readonly child: ChildProcess;
  readonly #answers = new Map<number, PromiseWithResolvers<z.infer<typeof answer>>>();
  readonly ready = Promise.withResolvers<void>();
  #n = 0;

  constructor(spec: object) {
    this.child = fork(WORKER, [JSON.stringify(spec)], {
      serialization: "advanced",
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.child.on("message", (message) => {
      const told = answer.parse(message);
      if (told.n === undefined) this.ready.resolve();
      else this.#answers.get(told.n)?.resolve(told);
    });
    this.child.on("exit", () => this.ready.reject(new Error("the worker ended")));
    this.ready.promise.catch(() => {});
  }

  ask(method: "run" | "get" | "cancel", about: object): Promise<z.infer<typeof answer>> {
    this.#n += 1;
    const told = Promise.withResolvers<z.infer<typeof answer>>();
    this.#answers.set(this.#n, told);
    this.child.send({ n: this.#n, method, request: about });
    return told.promise;
  }

  async kill(): Promise<void> {
    const exit = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await exit;
  }
}

describe("a worker that is killed while it runs processes", () => {
  let folder: TempFolder;
  let nats: TestNodeServer;
  let users: { store: KeyPair; sys: KeyPair };
  const workers: Worker[] = [];
  let generation = 0;

  beforeEach(async () => {
    folder = tempFolder();
    for (const name of ["work", "receipts", "state"])
      mkdirSync(join(folder.path, name), { mode: 0o700 });
    users = { store: createUser(), sys: createUser() };
    nats = await startNodeServer({ storeUser: users.store, sysUser: users.sys });
  });
  afterEach(async () => {
    for (const worker of workers.splice(0)) {
      if (worker.child.exitCode === null && worker.child.signalCode === null) await worker.kill();
    }
    await nats[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  const work = () => join(folder.path, "work");
  const seed = (user: KeyPair) => new TextDecoder().decode(user.getSeed());

  async function startWorker(): Promise<Worker> {
    generation += 1;
    const worker = new Worker({
      url: nats.child.clientUrl,
      storeSeed: seed(users.store),
      sysSeed: seed(users.sys),
      directory: join(folder.path, "receipts"),
      folder: work(),
      stateFolder: join(folder.path, "state"),
      logFile: join(folder.path, `worker-${generation}.log`),
      generation,
    });
    workers.push(worker);
    await worker.ready.promise;
    return worker;
  }

  /** The words of a file that a run writes, once it is there. */
  async function written(name: string): Promise<string[]> {
    const found = Promise.withResolvers<void>();
    const watcher = watch(work(), () => {
      if (readdirSync(work()).includes(name)) found.resolve();
    });
    if (readdirSync(work()).includes(name)) found.resolve();
    await found.promise;
    watcher.close();
    return readFileSync(join(work(), name), "utf8").trim().split(/\s+/);
  }

  it("leaves no process alive, and a successor that knows what is known and runs nothing twice", async () => {
    const canary = "CANARY-77ab";
    const first = await startWorker();
    const ended = request(shell(`cat; echo ${canary}-out; echo ran >>ended; exit 3`), {
      stdin: Buffer.from(`${canary}-in\n`),
    });
    const { receipt } = await first.ask("run", ended);
    expect(receipt).to.include({ state: "completed", exitCode: 3 });
    expect(String(Buffer.from(receipt?.stdout ?? []))).to.equal(`${canary}-in\n${canary}-out\n`);

    const script = `echo ran ${canary} >>started; setsid sleep 600 & echo $$ $! >pids.new; mv pids.new pids; exec sleep 600`;
    const running = request(shell(script), { timeoutMs: 1_800_000 });
    void first.ask("run", running);
    const left = (await written("pids")).map(identityOf);
    expect(left.length).to.equal(2);
    expect((await first.ask("get", { processId: running.processId })).receipt?.state).to.equal(
      "running",
    );
    await first.kill();
    for (const identity of left) expect(await waitForEnd(identity, 10_000)).to.equal(true);

    const second = await startWorker();
    const unknown = {
      state: "outcome_unknown",
      exitCode: null,
      stdout: null,
      stderr: null,
      outputTruncated: true,
    };
    const about = { processId: running.processId };
    for (const told of [
      await second.ask("get", about),
      await second.ask("run", running),
      await second.ask("cancel", about),
    ]) {
      expect(told.receipt).to.deep.include(unknown);
    }
    expect((await second.ask("get", { processId: ended.processId })).receipt).to.deep.include({
      state: "completed",
      exitCode: 3,
      stdout: null,
      stderr: null,
      outputTruncated: true,
    });
    expect((await second.ask("run", { ...running, timeoutMs: 5_000 })).code).to.equal(
      "process_id_conflict",
    );
    expect((await second.ask("get", { processId: "never:used" })).receipt?.state).to.equal(
      "not_found",
    );
    expect(readFileSync(join(work(), "started"), "utf8")).to.equal(`ran ${canary}\n`);
    expect(readFileSync(join(work(), "ended"), "utf8")).to.equal("ran\n");

    // Receipts, witness and logs on the disk: not a word of the runs.
    await nats.kill();
    const places = [
      nats.directory,
      join(folder.path, "receipts"),
      join(folder.path, "worker-1.log"),
    ];
    expect(filesWith(running.processId, places)).not.to.equal("");
    expect(filesWith(canary, places)).to.equal("");
  });
});

function filesWith(text: string, places: readonly string[]): string {
  try {
    return execFileSync("grep", ["-rlaF", "--", text, ...places], { encoding: "utf8" });
  } catch {
    return "";
  }
}
