/** Owns roles and scopes: their wire names, their short names, what a role may hold (control-plane-wire.md 2.2). */

export const ROLES = ["operator", "node", "device"] as const;
export type Role = (typeof ROLES)[number];

/** The short name, as `hello-ok.auth.scopes` shows it. */
export type Scope =
  | "admin"
  | "read"
  | "write"
  | "approvals"
  | "pairing"
  | "invoke"
  | "event"
  | "control";

export const SCOPES_OF_ROLE: Readonly<Record<Role, readonly Scope[]>> = {
  operator: ["admin", "read", "write", "approvals", "pairing"],
  node: ["invoke", "event"],
  device: ["control"],
};

const SCOPE_OF_WIRE_NAME: ReadonlyMap<string, Scope> = new Map([
  ["operator.admin", "admin"],
  ["admin", "admin"],
  ["operator.read", "read"],
  ["read", "read"],
  ["operator.write", "write"],
  ["write", "write"],
  ["operator.approvals", "approvals"],
  ["operator.pairing", "pairing"],
  ["node.invoke", "invoke"],
  ["node.event", "event"],
  ["device.control", "control"],
]);

/**
 * The scopes a connection gets: those of its role, narrowed by what it asks for. Unknown entries are
 * dropped; anything but a list asks for all.
 */
export function grantScopes(role: Role, asked: unknown): readonly Scope[] {
  const held = SCOPES_OF_ROLE[role];
  if (!Array.isArray(asked)) return held;
  const wanted = new Set(
    asked.map((name) => (typeof name === "string" ? SCOPE_OF_WIRE_NAME.get(name) : undefined)),
  );
  return held.filter((scope) => wanted.has(scope));
}
