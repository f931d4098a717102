/**
 * Owns what can not be asked of a node by `node.invoke`: what is the control plane's own, with checks that a
 * raw invocation would go around (node-host-io.md; control-plane-wire.md 2.3, 3.2). Every other name is the
 * node's to invent.
 */
import { METHODS } from "../../protocol/methods.ts";

/**
 * How names begin that are the control plane's, also where this build does not serve them: a node of another
 * build may, and a client that may only `write` would get there what asks for more here.
 */
const OWNED: readonly string[] = [
  // Files, processes and keys of a machine: admin, within the roots and with the receipts of the link.
  "node.fs",
  "node.process",
  "node.secrets",
  "node.host",
  "node.link",
  // Asked by the control plane on its own account, or by nodes of it; of admins at least.
  "node.native.",
  "node.mcp.",
  "node.profile",
  "profile.",
  "profiles.",
  // Agents and what they said, under their own runs and approvals.
  "chat.",
  "coding_agent.",
  "sessions.",
  "runs.",
  "exec.",
  // The control plane itself: its secrets, settings, life, events, and who is let in.
  "secrets.",
  "config.",
  "system.",
  "events.",
  "connect",
];

export function isRefusedMethod(name: string): boolean {
  // A node that reads names more loosely than we do gets nothing by it.
  const method = name.toLowerCase();
  return METHODS.has(method) || OWNED.some((beginning) => method.startsWith(beginning));
}
