/** Owns a receipt store of which only what an opening looks at is real: its condition, and that it was closed. */
import { LemonError } from "../../protocol/errors.ts";
import type { OpenReceiptStore, StoreState } from "../../transport/receipts/receipt.ts";

export class StoreCondition {
  condition: StoreState = "serving";
  /** How often it was closed. */
  closed = 0;
  readonly #watchers: (() => void)[] = [];

  become(condition: StoreState): void {
    this.condition = condition;
    for (const changed of this.#watchers) changed();
  }

  asOpen<State>(): OpenReceiptStore<State> {
    const store = this;
    return {
      admit: () => Promise.reject(new LemonError("internal_error")),
      advance: () => Promise.reject(new LemonError("internal_error")),
      read: () => Promise.resolve(null),
      ids: () => Promise.resolve([]),
      retained: 7,
      storeId: "store",
      lastWitnessedSequence: 9,
      damage: null,
      get condition() {
        return store.condition;
      },
      watch(changed) {
        store.#watchers.push(changed);
        return () => {};
      },
      async close() {
        store.closed += 1;
      },
    };
  }
}
