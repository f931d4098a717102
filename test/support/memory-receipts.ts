/**
 * Owns a receipt store in memory that keeps the promises of `ReceiptStore`, and whose operations a test
 * can hold up or let fail.
 */
import { LemonError } from "../../protocol/errors.ts";
import type {
  Admission,
  Receipt,
  ReceiptKind,
  ReceiptStore,
} from "../../transport/receipts/receipt.ts";

export type Operation = "admit" | "advance" | "read";

interface Stored<State> {
  readonly receipt: Receipt<State>;
  readonly intent: string;
}

/** What outlives a worker's life. */
export type Disk<State> = Map<string, Stored<State>>;

interface Held {
  readonly operation: Operation;
  readonly id: string;
  go(): void;
}

export class MemoryReceipts<State> implements ReceiptStore<State> {
  readonly disk: Disk<State>;
  readonly #kind: ReceiptKind<State>;
  readonly #generation: number;
  readonly #admitting = new Set<string>();
  /** Operations that wait for the test, oldest first. */
  readonly held: Held[] = [];
  /** All that was done, in order of completion. */
  readonly done: { readonly operation: Operation; readonly id: string }[] = [];
  #isHolding: (operation: Operation) => boolean = () => false;
  #failure: ((operation: Operation) => LemonError | null) | undefined;
  #away: PromiseWithResolvers<void> | undefined;

  constructor(kind: ReceiptKind<State>, generation: number, disk: Disk<State> = new Map()) {
    this.#kind = kind;
    this.#generation = generation;
    this.disk = disk;
    for (const [id, { receipt, intent }] of disk) {
      const end = kind.interrupted(receipt.state);
      if (end !== null) disk.set(id, { receipt: { ...receipt, state: end }, intent });
    }
  }

  get retained(): number {
    const known = [...this.#admitting].filter((id) => this.disk.has(id)).length;
    return this.disk.size + this.#admitting.size - known;
  }

  /** From now on such operations wait in `held` before they are carried out. */
  hold(which: (operation: Operation) => boolean = () => true): void {
    this.#isHolding = which;
  }

  /** Lets go of what is held, and holds no more. */
  letGo(): void {
    this.#isHolding = () => false;
    for (const held of this.held.splice(0)) held.go();
  }

  /** From now on such operations fail. */
  fail(failure: ((operation: Operation) => LemonError | null) | undefined): void {
    this.#failure = failure;
  }

  /** Reads and admissions fail, ends wait, until `comeBack`. */
  goAway(): void {
    this.#away = Promise.withResolvers();
  }

  comeBack(): void {
    this.#away?.resolve();
    this.#away = undefined;
  }

  /** Fills up with spent ids. */
  fill(count: number, state: State): void {
    for (let n = 0; n < count; n += 1) this.#put(`filler-${n}`, "", state, "filler", n);
  }

  async admit(id: string, intent: Uint8Array, state: State): Promise<Admission<State>> {
    this.#admitting.add(id);
    try {
      await this.#turn("admit", id);
      const binding = Buffer.from(intent).toString("base64");
      const stored = this.disk.get(id);
      if (stored !== undefined) {
        return {
          outcome: "existing",
          receipt: stored.receipt,
          sameIntent: stored.intent === binding,
        };
      }
      const invocation = crypto.randomUUID();
      return { outcome: "admitted", receipt: this.#put(id, binding, state, invocation, 1) };
    } finally {
      this.#admitting.delete(id);
      this.done.push({ operation: "admit", id });
    }
  }

  async advance(receipt: Receipt<State>, next: State): Promise<Receipt<State>> {
    await this.#away?.promise;
    await this.#turn("advance", receipt.id);
    const stored = this.disk.get(receipt.id);
    if (stored === undefined) throw new Error("nothing was admitted");
    if (stored.receipt.revision !== receipt.revision) return stored.receipt;
    if (this.#kind.rank(next) <= this.#kind.rank(receipt.state)) throw new Error("backwards");
    const { invocation } = receipt.owner;
    const advanced = this.#put(receipt.id, stored.intent, next, invocation, receipt.revision + 1);
    this.done.push({ operation: "advance", id: receipt.id });
    return advanced;
  }

  async read(id: string): Promise<Receipt<State> | null> {
    await this.#turn("read", id);
    this.done.push({ operation: "read", id });
    return this.disk.get(id)?.receipt ?? null;
  }

  async ids(): Promise<readonly string[]> {
    await this.#turn("read", "");
    return [...this.disk.keys()];
  }

  #put(
    id: string,
    intent: string,
    state: State,
    invocation: string,
    revision: number,
  ): Receipt<State> {
    const owner = { generation: this.#generation, invocation };
    // As a disk would: what comes back is what `parse` makes of it.
    const parsed = this.#kind.parse(JSON.parse(JSON.stringify(state)));
    const receipt = { id, state: parsed, owner, revision };
    this.disk.set(id, { receipt, intent });
    return receipt;
  }

  async #turn(operation: Operation, id: string): Promise<void> {
    if (this.#isHolding(operation)) {
      await new Promise<void>((resolve) => this.held.push({ operation, id, go: resolve }));
    }
    if (this.#away !== undefined) throw new LemonError("receipt_store_unavailable");
    const failure = this.#failure?.(operation) ?? null;
    if (failure !== null) throw failure;
  }
}
