/** Owns what a vault must know: the rules of the contract over plain maps, without a store, a key or a crash. */
import type { VaultRequest } from "./vault-worker.ts";

export type SetPayload = Extract<VaultRequest, { type: "set" }>["payload"];

interface Kept {
  readonly text: string;
  readonly expiresAtMs: number | null;
  /** One for each encryption. */
  readonly binding: object;
}

interface Applied {
  readonly intent: string;
  readonly name: string;
  readonly binding: object;
}

const RECEIPTS_OF_NAME = 128;

const intentOf = (payload: SetPayload): string =>
  JSON.stringify({ ...payload, name: payload.name.trim() });

export class VaultModel {
  readonly #kept = new Map<string, Kept>();
  readonly #applied = new Map<string, Applied>();
  nowMs: number;

  constructor(nowMs: number) {
    this.nowMs = nowMs;
  }

  get operations(): readonly string[] {
    return [...this.#applied.keys()];
  }

  names(): string[] {
    return [...this.#kept.keys()].filter((name) => this.value(name) !== null).sort();
  }

  value(name: string): string | null {
    return this.#standing(name)?.text ?? null;
  }

  receipt(operationId: string) {
    const applied = this.#applied.get(operationId);
    if (applied === undefined) {
      return { operationId, status: "not_found", name: null, currentBindingMatches: false };
    }
    const currentBindingMatches = this.#standing(applied.name)?.binding === applied.binding;
    return { operationId, status: "applied", name: applied.name, currentBindingMatches };
  }

  /** Why a set is refused; `repeated` when it is answered without a write; null when it is applied. */
  refusal(payload: SetPayload): string | null {
    const { operationId, expiresAtMs } = payload;
    if (expiresAtMs !== null && expiresAtMs <= this.nowMs) return "invalid_params";
    const name = payload.name.trim();
    if (operationId === null) return null;
    const applied = this.#applied.get(operationId);
    if (applied !== undefined) {
      const repeats = applied.intent === intentOf(payload);
      return repeats && this.receipt(operationId).currentBindingMatches
        ? "repeated"
        : "secret_operation_conflict";
    }
    const receipts = [...this.#applied.values()].filter((one) => one.name === name).length;
    return receipts >= RECEIPTS_OF_NAME ? "secret_receipt_capacity" : null;
  }

  apply(payload: SetPayload): void {
    const { text, operationId, expiresAtMs } = payload;
    const name = payload.name.trim();
    const binding = {};
    this.#kept.set(name, { text, expiresAtMs, binding });
    if (operationId !== null)
      this.#applied.set(operationId, { intent: intentOf(payload), name, binding });
  }

  delete(name: string): void {
    this.#kept.delete(name.trim());
  }

  /** Everything is encrypted anew. */
  rotate(): void {
    for (const name of this.names()) {
      const kept = this.#kept.get(name);
      if (kept !== undefined) this.#kept.set(name, { ...kept, binding: {} });
    }
  }

  #standing(name: string): Kept | null {
    const kept = this.#kept.get(name);
    if (kept === undefined) return null;
    return kept.expiresAtMs === null || kept.expiresAtMs > this.nowMs ? kept : null;
  }
}
