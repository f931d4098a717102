/** Owns the moments of a start at which tests interrupt a role, and how each is seen from outside. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { RoleProcess } from "./role-process.ts";
import { until } from "./role-stage.ts";

/** Resolves when the moment has come for the role that lives in `home`. */
export type Moment = (home: string, role: RoleProcess) => Promise<unknown>;

export const seen: (path: string) => Promise<true> = (path) =>
  until(path, () => existsSync(path) || undefined);

export const logged = (role: RoleProcess, line: string): Promise<true> =>
  role.until(() => role.log.includes(line) || undefined);

/** Of `lemon up`, in their order. */
export const MOMENTS_OF_UP: readonly (readonly [name: string, come: Moment])[] = [
  ["identity taken", (home) => seen(join(home, "controller", "lock"))],
  ["keys made", (home) => seen(join(home, "controller", "keys", "authority.json"))],
  ["server recorded", (home) => seen(join(home, "controller", "hub", "server.json"))],
  ["server ready", (_, role) => logged(role, "nats-server is ready")],
  ["store open", (_, role) => logged(role, "receipt store is open")],
  ["ready", (_, role) => role.said("ready")],
];
