/** Owns which read-only call tells what became of a mutation whose answer was lost. */
import type { MethodSpec } from "../protocol/method.ts";
import type { InputOf, MethodName } from "../protocol/methods.ts";

/** A call that changes nothing and settles an uncertain one. */
export type Settlement = {
  readonly [M in MethodName]: { readonly method: M; readonly params: InputOf<M> };
}[MethodName];

/** The read that settles a call, as the method's declaration has it; null when none does, or when it wants what the call left out. */
export function settlementOf(
  { settledBy }: Pick<MethodSpec, "settledBy">,
  given: Readonly<Record<string, unknown>>,
): Settlement | null {
  if (settledBy === null || settledBy.params.some((name) => given[name] === undefined)) return null;
  const params = Object.fromEntries(settledBy.params.map((name) => [name, given[name]]));
  // A declaration names a declared read and parameters of it (test/protocol/methods.test.ts).
  return { method: settledBy.method, params } as Settlement;
}
