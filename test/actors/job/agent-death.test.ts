import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createUser, type KeyPair } from "@nats-io/nkeys";
import { expect } from "chai";
import { z } from "zod";
import { waitForEnd } from "../../../host/process-identity.ts";
import { job } from "../../../protocol/host-agent/job.ts";
import type { JobAgentCall, JobAgentSpec } from "../../support/job-agent.ts";
import { identityOf } from "../../support/native-run.ts";
import { startNodeServer, type TestNodeServer } from "../../support/nats.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const AGENT = fileURLToPath(new URL("../../support/job-agent.ts", import.meta.url));
const told = z.object({
  n: z.int().optional(),
  value: z.unknown().optional(),
  code: z.string().optional(),
});
const line = z.object({ line: z.string() });

class Agent {
  readonly child: ChildProcess;
  readonly ready = Promise.withResolvers<void>();
  readonly #answers = new Map<number, PromiseWithResolvers<unknown>>();
  #n = 0;

  constructor(spec: JobAgentSpec) {
    this.child = fork(AGENT, [JSON.stringify(spec)], {
      serialization: "advanced",
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.child.on("message", (message) => {
      const { n, value, code } = told.parse(message);
      if (n === undefined) this.ready.resolve();
      else this.#answers.get(n)?.resolve(code ?? value);
    });
    this.child.on("exit", () => this.ready.reject(new Error("the agent ended")));
    this.ready.promise.catch(() => {});
  }

  /** What was answered, or the code it was refused with. */
  ask(call: JobAgentCall): Promise<unknown> {
    this.#n += 1;
    const answer = Promise.withResolvers<unknown>();
    this.#answers.set(this.#n, answer);
    this.child.send({ n: this.#n, call });
    return answer.promise;
  }

  async kill(): Promise<void> {
    const exit = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await exit;
  }
}

/** All that stands in files below a folder. */
function contentOf(folder: string): Buffer {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());
  return Buffer.concat(files.map((path) => readFileSync(path)));
}

describe("an agent that is killed while it runs jobs", function () {
  // Two processes start one after the other, on a machine that may be busy.
  this.timeout(90_000);
  let folder: TempFolder;
  let nats: TestNodeServer;
  let users: { store: KeyPair; sys: KeyPair };
  const agents: Agent[] = [];

  beforeEach(async () => {
    folder = tempFolder();
    mkdirSync(join(folder.path, "receipts"), { mode: 0o700 });
    users = { store: createUser(), sys: createUser() };
    nats = await startNodeServer({ storeUser: users.store, sysUser: users.sys });
  });
  afterEach(async () => {
    for (const agent of agents.splice(0)) {
      if (agent.child.exitCode === null && agent.child.signalCode === null) await agent.kill();
    }
    await nats[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  const seed = (user: KeyPair) => new TextDecoder().decode(user.getSeed());

  async function startAgent(): Promise<Agent> {
    const generation = agents.length + 1;
    const agent = new Agent({
      url: nats.child.clientUrl,
      storeSeed: seed(users.store),
      sysSeed: seed(users.sys),
      directory: join(folder.path, "receipts"),
      logFile: join(folder.path, `agent-${generation}.log`),
      generation,
    });
    agents.push(agent);
    await agent.ready.promise;
    return agent;
  }

  it("leaves no program alive, and a successor that knows what is known and runs nothing again", async () => {
    const password = "CANARY-5e5a";
    const first = await startAgent();
    const start = (kind: string, key: string | null): JobAgentCall => ({
      do: "start",
      kind,
      body: { password },
      key,
    });
    const quick = job.parse(await first.ask(start("quick", null)));
    const held = job.parse(await first.ask(start("hold", "hold-1")));
    const waiting = job.parse(await first.ask(start("quick", "wait-1")));
    expect(waiting).to.include({ status: "queued", queue_position: 1 });
    const { line: pid } = line.parse(await first.ask({ do: "firstLine", id: held.job_id }));
    const program = identityOf(pid);
    await first.kill();
    expect(await waitForEnd(program, 10_000)).to.equal(true);

    const second = await startAgent();
    const read = async (id: string) => job.parse(await second.ask({ do: "get", id }));
    expect(await read(quick.job_id)).to.deep.include({
      status: "completed",
      result: { quick: true },
    });
    const cut = await read(held.job_id);
    expect(cut).to.include({ kind: "hold", status: "outcome_unknown" });
    expect(cut.error?.code).to.equal("outcome-unknown");
    const never = await read(waiting.job_id);
    expect(never).to.include({ status: "cancelled" });
    expect(never.error?.code).to.equal("agent-restarted");
    expect(await second.ask(start("hold", "hold-1"))).to.deep.equal(cut);
    expect(await second.ask(start("quick", "hold-1"))).to.equal("idempotency-conflict");
    expect(await second.ask({ do: "get", id: "j_000000" })).to.equal("unknown-job");
    const listed = z.array(job).parse(await second.ask({ do: "list" }));
    expect(listed.map(({ job_id }) => job_id).sort()).to.deep.equal(
      [quick, held, waiting].map(({ job_id }) => job_id).sort(),
    );

    for (const place of [folder.path, nats.directory]) {
      expect(contentOf(place).includes(password), place).to.equal(false);
    }
  });
});
