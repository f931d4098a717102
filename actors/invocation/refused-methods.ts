/**
 * Owns what can not be asked of a node by `node.invoke`: what this control plane serves itself, with checks of
 * its own that a raw invocation would go around (node-host-io.md; control-plane-wire.md 3.2).
 */
import { METHODS } from "../../protocol/methods.ts";

/** Families that are the control plane's as a whole, also those of their methods that this build does not serve. */
const OWNED = ["node.process.", "node.fs.", "node.secrets.", "node.host.", "node.link."] as const;

export function isRefusedMethod(name: string): boolean {
  // A node that reads names more loosely than we do gets nothing by it.
  const method = name.toLowerCase();
  return METHODS.has(method) || OWNED.some((family) => method.startsWith(family));
}
