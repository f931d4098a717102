/**
 * Owns the turns of one process id: run, get and cancel of it pass through this actor's mailbox, so that
 * none of them slips in front of an admission in flight (architecture.md, "Receipts").
 *
 * 1. A read of the store, an admission or a tombstone holds the mailbox; the run itself does not.
 * 2. The program is started only by whoever was answered `admitted`, and only while somebody may still
 *    wait for it: an admission that took too long ends as `cancelled`, with nothing started.
 * 3. The end of this actor is the end of its run: stopped in order, the run reads `cancelled`; after a
 *    crash, `outcome_unknown`.
 */
import type { Logger } from "pino";
import { LemonError } from "../../protocol/errors.ts";
import type { ProcessReceipt, ProcessRunRequest } from "../../protocol/process.ts";
import { type ActorSpec, type Death, type Later, later } from "../../supervision/actor.ts";
import type { Admission, Receipt, ReceiptStore } from "../../transport/receipts/receipt.ts";
import { Launch, type LaunchGround } from "./launch.ts";
import { Run, type RunBirth, type RunEnd } from "./run.ts";
import type { Runs } from "./runs.ts";
import { ADMITTED, intentOf, isFinal, NO_INTENT, type ProcessState, TOMBSTONE } from "./state.ts";

export type RunProtocol = {
  run: (request: ProcessRunRequest) => ProcessReceipt;
  get: (nothing: null) => ProcessReceipt;
  cancel: (nothing: null) => ProcessReceipt;
};

export interface RunActorParts extends LaunchGround {
  readonly log: Logger;
  readonly generation: number;
  readonly receipts: ReceiptStore<ProcessState>;
  readonly runs: Runs;
  /** Told of each run, with a promise that settles when this actor has nothing more to do for it. */
  readonly onRun: (finished: Promise<unknown>) => void;
}

/** How long whoever asks for a run waits for it, in ms. */
export function runDeadlineMs({ timeoutMs }: ProcessRunRequest): number {
  return timeoutMs + RUN_GRACE_MS;
}

/** As the broker has it (protocol/methods/process.ts). */
const RUN_GRACE_MS = 5_000;
/**
 * How long after the end of its process a run's answer waits for the store, in ms. The caller waits 5 s
 * beyond the timeout: enough for the end, this, and an answer that says what to do.
 */
const STORE_GRACE_MS = 2_500;
/** A stop kills, sees the death, and has it stored. */
const SHUTDOWN_MS = 8_000;

/** The actor of one process id. `name` stands in the tree: a caller's id is no one else's to read. */
export function runActor(name: string, id: string, parts: RunActorParts): ActorSpec<RunProtocol> {
  return {
    id: name,
    kind: "process-run",
    restart: "temporary",
    shutdownMs: SHUTDOWN_MS,
    start() {
      const behaviour = new RunBehaviour(id, parts);
      return {
        handlers: {
          run: (request) => behaviour.run(request),
          get: () => behaviour.get(),
          cancel: () => behaviour.cancel(),
        },
        stop: (reason) => behaviour.stop(reason),
      };
    },
  };
}

interface Work {
  readonly run: Run;
  readonly request: ProcessRunRequest;
  readonly receipt: Receipt<ProcessState>;
}

/** What an admitted run begins with. */
type Ready = Pick<RunBirth, "slot" | "launch">;

interface Admitted {
  readonly admission: Admission<ProcessState>;
  /** Null: there is nothing to run. */
  readonly ready: Ready | null;
}

type Answer = ProcessReceipt | Later<ProcessReceipt>;

class RunBehaviour {
  readonly #id: string;
  readonly #parts: RunActorParts;
  /** From the admission until the end is stored. */
  #work: Work | undefined;
  #stopped = false;

  constructor(id: string, parts: RunActorParts) {
    this.#id = id;
    this.#parts = parts;
  }

  async run(request: ProcessRunRequest): Promise<Answer> {
    const { clock } = this.#parts;
    const takenMs = clock.monotonicMs();
    const intent = intentOf(request);
    if (this.#work !== undefined) {
      const isSame = Buffer.compare(intentOf(this.#work.request), intent) === 0;
      if (!isSame) throw new LemonError("process_id_conflict");
      return later(this.#outcome(this.#work.run));
    }
    const { admission, ready } = await this.#admit(intent, request);
    const { outcome, receipt } = admission;
    if (ready !== null) {
      const isLate = clock.monotonicMs() - takenMs >= runDeadlineMs(request);
      const unwanted = isLate || this.#stopped;
      const run = new Run(this.#parts.runs, { receipt, ...ready, unwanted }, this.#parts.log);
      this.#follow({ run, request, receipt });
      return later(this.#outcome(run));
    }
    const { runs } = this.#parts;
    if (receipt.state.tombstone) return runs.reading(this.#id, receipt);
    if (outcome === "existing" && !admission.sameIntent) {
      throw new LemonError("process_id_conflict");
    }
    return this.#ending() ?? runs.reading(this.#id, receipt);
  }

  async get(): Promise<Answer> {
    const { runs } = this.#parts;
    if (this.#work !== undefined) return runs.reading(this.#id, this.#work.receipt);
    return await runs.read(this.#id);
  }

  async cancel(): Promise<Answer> {
    if (this.#work !== undefined) {
      this.#work.run.cancel();
      return later(this.#cancelled(this.#work.run));
    }
    const { receipt } = await this.#spend(NO_INTENT, TOMBSTONE);
    if (isFinal(receipt.state)) return this.#parts.runs.reading(this.#id, receipt);
    if (receipt.owner.generation !== this.#parts.generation) {
      throw new LemonError("process_generation_mismatch");
    }
    const ending = this.#ending();
    if (ending !== null) return ending;
    throw new LemonError("process_outcome_unknown");
  }

  async stop(reason: Death["reason"]): Promise<void> {
    this.#stopped = true;
    if (this.#work === undefined) return;
    const { run } = this.#work;
    if (reason === "shutdown") run.cancel();
    else run.abandon();
    // Whoever asked for the run is told; here it only matters that it is over.
    await this.#end(run).catch(() => {});
  }

  /** A slot first, then the fence: whoever gets no slot learns what is known of the id, and spends nothing. */
  async #admit(intent: Uint8Array, request: ProcessRunRequest): Promise<Admitted> {
    const { runs, receipts } = this.#parts;
    const slot = runs.takeSlot();
    if (slot === null) {
      if ((await receipts.read(this.#id)) === null) throw new LemonError("too_many_processes");
      // It is spent, so this admits nothing: it compares the intents.
      return { admission: await receipts.admit(this.#id, intent, ADMITTED), ready: null };
    }
    const launch = new Launch(this.#parts, request);
    // Once the fence is on its way: nothing is started before it is written.
    setImmediate(() => launch.prepare());
    let ready: Ready | null = null;
    try {
      const admission = await this.#spend(intent, ADMITTED);
      if (admission.outcome === "admitted") ready = { slot, launch };
      return { admission, ready };
    } finally {
      if (ready === null) {
        slot.release();
        launch.discard();
      }
    }
  }

  async #spend(intent: Uint8Array, state: ProcessState): Promise<Admission<ProcessState>> {
    const { runs, receipts } = this.#parts;
    if (runs.full && (await receipts.read(this.#id)) === null) {
      throw new LemonError("process_receipt_limit");
    }
    return await receipts.admit(this.#id, intent, state);
  }

  #follow(work: Work): void {
    this.#work = work;
    const done = (): void => {
      this.#work = undefined;
    };
    this.#parts.onRun(work.run.finished.then(done, done));
  }

  /** The end that an earlier life of this actor left to be stored. */
  #ending(): Later<ProcessReceipt> | null {
    const { runs } = this.#parts;
    const ending = runs.ending(this.#id);
    if (ending === undefined) return null;
    return later(ending.then((receipt) => runs.reading(this.#id, receipt)));
  }

  /** What whoever asked for the run is told. */
  async #outcome(run: Run): Promise<ProcessReceipt> {
    const { receipt, failure } = await this.#end(run);
    if (failure !== null) throw failure;
    return receipt;
  }

  /** What whoever cancels it is told: that nothing was started is no failure of the cancel. */
  async #cancelled(run: Run): Promise<ProcessReceipt> {
    const { receipt, failure } = await this.#end(run);
    if (failure instanceof LemonError && failure.code === "process_stop_failed") throw failure;
    return receipt;
  }

  /** The stored end of a run; an honest error when the store takes too long. */
  async #end(run: Run): Promise<RunEnd> {
    let cancelTimer = (): void => {};
    const late = run.over.then(
      () =>
        new Promise<never>((_, reject) => {
          cancelTimer = this.#parts.clock.after(STORE_GRACE_MS, () =>
            reject(new LemonError("process_outcome_unknown")),
          );
        }),
    );
    try {
      return await Promise.race([run.finished, late]);
    } finally {
      cancelTimer();
    }
  }
}
