/**
 * Owns native processes on a node: the door of `node.process.run`, `get` and `cancel` (node-host-io.md,
 * "Native processes"), behind it a service and one actor for each id in work.
 *
 * 1. Every request is validated here again, whoever validated it before.
 * 2. What failed is an error; `not_found` comes from a strict read alone.
 * 3. Nothing of arguments, input or output is logged or kept, but for the volatile output cache.
 */
import type { Logger } from "pino";
import { refuseRelativeProgram } from "../../host/executable.ts";
import { LemonError } from "../../protocol/errors.ts";
import { readRequest } from "../../protocol/params.ts";
import {
  type ProcessIdRequest,
  type ProcessReceipt,
  type ProcessRunRequest,
  processIdRequest,
  processRunRequest,
} from "../../protocol/process.ts";
import {
  type ActorRef,
  type ActorSpec,
  later,
  type SupervisorRef,
} from "../../supervision/actor.ts";
import type { ReceiptStore } from "../../transport/receipts/receipt.ts";
import type { LaunchGround } from "./launch.ts";
import { type RunActorParts, runActor, runDeadlineMs } from "./run-actor.ts";
import { Runs } from "./runs.ts";
import type { ProcessState } from "./state.ts";
import { Table } from "./table.ts";

export interface ProcessServiceDeps extends LaunchGround {
  readonly log: Logger;
  readonly nodeId: string;
  /** This worker life. */
  readonly generation: number;
  readonly receipts: ReceiptStore<ProcessState>;
}

/** Requests are what came over the link: anything. Errors: the table's. */
export interface ProcessService {
  /** A `ProcessRunRequest`; resolves with the final receipt. */
  run(request: unknown): Promise<ProcessReceipt>;
  /** A `ProcessIdRequest`. Starts nothing. */
  get(request: unknown): Promise<ProcessReceipt>;
  /** A `ProcessIdRequest`; an id that was never used is spent on a tombstone. */
  cancel(request: unknown): Promise<ProcessReceipt>;
  /** Runs that a drain would wait for now. */
  readonly underWay: number;
  /**
   * For the end of the worker: takes no more runs, lets those under way finish for `graceMs` (default
   * 10,000) and cancels the rest. Resolves when every end is stored, or a few seconds after the cancel.
   */
  drain(options?: { readonly graceMs?: number }): Promise<void>;
}

type ServiceProtocol = {
  run: (request: ProcessRunRequest) => ProcessReceipt;
  get: (request: ProcessIdRequest) => ProcessReceipt;
  cancel: (request: ProcessIdRequest) => ProcessReceipt;
};

/** As the broker has it (protocol/methods/process.ts). */
const CALL_DEADLINE_MS = 30_000;
const DRAIN_MS = 10_000;
/** A cancelled run is dead and stored well within this. */
const CANCELLED_WITHIN_MS = 5_000;

export async function startProcessService(
  supervisor: SupervisorRef,
  deps: ProcessServiceDeps,
): Promise<ProcessService> {
  const runs = new Runs(deps.nodeId, deps.receipts, deps.clock);
  const policy = {
    restart: "permanent",
    intensity: { restarts: 5, windowMs: 60_000 },
    backoff: { firstMs: 100, maxMs: 5_000, resetAfterMs: 60_000 },
  } as const;
  // The table and the actors it names live and fall together.
  const room = await supervisor.startSupervisor({
    id: "processes",
    strategy: "one_for_all",
    ...policy,
  });
  const place = Promise.withResolvers<SupervisorRef>();
  const service = await room.startActor(serviceActor(place.promise, { ...deps, runs }));
  // After the service, so that in a shutdown the runs end first and their answers still go out.
  place.resolve(
    await room.startSupervisor({
      id: "runs",
      strategy: "one_for_one",
      stopOrder: "together",
      ...policy,
    }),
  );
  return new Door(service, runs, deps);
}

function serviceActor(
  place: Promise<SupervisorRef>,
  parts: Omit<RunActorParts, "onRun">,
): ActorSpec<ServiceProtocol> {
  let serial = 0;
  return {
    id: "service",
    kind: "process-service",
    restart: "permanent",
    start() {
      const table = new Table(async (id, onRun) => {
        serial += 1;
        const name = `run-${serial}`;
        return await (await place).startActor(runActor(name, id, { ...parts, onRun }));
      });
      return {
        handlers: {
          run: (request) => {
            const deadlineMs = runDeadlineMs(request);
            return later(
              table.use(request.processId, (actor) => actor.ask("run", request, { deadlineMs })),
            );
          },
          get: ({ processId }) => {
            // With no call of this id in work there is no admission to wait for.
            if (!table.has(processId)) return later(parts.runs.read(processId));
            return later(table.use(processId, (actor) => actor.ask("get", null, CALL)));
          },
          cancel: ({ processId }) =>
            later(table.use(processId, (actor) => actor.ask("cancel", null, CALL))),
        },
      };
    },
  };
}

const CALL = { deadlineMs: CALL_DEADLINE_MS };

class Door implements ProcessService {
  readonly #service: ActorRef<ServiceProtocol>;
  readonly #runs: Runs;
  readonly #deps: ProcessServiceDeps;
  #draining = false;

  constructor(service: ActorRef<ServiceProtocol>, runs: Runs, deps: ProcessServiceDeps) {
    this.#service = service;
    this.#runs = runs;
    this.#deps = deps;
  }

  async run(raw: unknown): Promise<ProcessReceipt> {
    const request = readRequest(processRunRequest, raw);
    refuseRelativeProgram(request.argv[0] ?? "");
    if (this.#draining) throw new LemonError("unavailable");
    return await this.#service.ask("run", request, { deadlineMs: runDeadlineMs(request) });
  }

  async get(raw: unknown): Promise<ProcessReceipt> {
    return await this.#service.ask("get", readRequest(processIdRequest, raw), CALL);
  }

  async cancel(raw: unknown): Promise<ProcessReceipt> {
    return await this.#service.ask("cancel", readRequest(processIdRequest, raw), CALL);
  }

  get underWay(): number {
    return this.#runs.underWay;
  }

  async drain({ graceMs = DRAIN_MS } = {}): Promise<void> {
    this.#draining = true;
    if (await this.#idleWithin(graceMs)) return;
    this.#runs.cancelAll();
    if (await this.#idleWithin(CANCELLED_WITHIN_MS)) return;
    this.#deps.log.warn("runs are still under way after the drain");
  }

  async #idleWithin(withinMs: number): Promise<boolean> {
    let cancelTimer = (): void => {};
    const late = new Promise<boolean>((resolve) => {
      cancelTimer = this.#deps.clock.after(withinMs, () => resolve(false));
    });
    const idle = await Promise.race([this.#runs.idle().then(() => true), late]);
    cancelTimer();
    return idle;
  }
}
