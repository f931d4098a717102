/** Owns which read-only call tells what became of a mutation whose answer was lost. */
import type { InputOf, MethodName } from "../protocol/methods.ts";

/** A call that changes nothing and settles an uncertain one. */
export type Settlement = {
  readonly [M in MethodName]: { readonly method: M; readonly params: InputOf<M> };
}[MethodName];

/**
 * The read that settles `method`, or null when none does: a challenge is answered once (ask for
 * another), a link is simply opened again.
 */
export function settlementOf(
  method: MethodName,
  params: Readonly<Record<string, unknown>>,
): Settlement | null {
  const nodeId = text(params["nodeId"]);
  switch (method) {
    case "node.process.run":
    case "node.process.cancel":
      return {
        method: "node.process.get",
        params: { nodeId, processId: text(params["processId"]) },
      };
    case "node.rename":
    case "node.revoke":
      return { method: "node.describe", params: { nodeId } };
    case "node.remove":
      return { method: "node.list", params: {} };
    case "node.pair.request":
    case "node.pair.approve":
    case "node.pair.reject":
      return { method: "node.pair.list", params: {} };
    default:
      return null;
  }
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
