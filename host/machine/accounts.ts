/** People's accounts and the identities that apps run as. Numbers are POSIX ids. */
import type { RouteResult } from "../../protocol/host-agent/routes.ts";

export type Role = "admin" | "member";
export type UserHome = RouteResult<"userHome">;
export type WellKnownIdentity = RouteResult<"wellKnownIdentity">;
export type AppIdentity = RouteResult<"allocateAppService">;

export interface Accounts {
  /** False for whatever reason; never throws for a wrong or unknown one. The bytes stay the caller's. */
  verifyPassword(user: string, password: Uint8Array): Promise<boolean>;
  /** Makes the account when there is none. */
  setPassword(user: string, password: Uint8Array): Promise<void>;
  /** Idempotent. */
  setRole(user: string, role: Role): Promise<void>;
  /** Idempotent: an unknown user is as good. */
  deleteUser(user: string): Promise<void>;
  /** Errors: `unknown-user`. */
  home(user: string): Promise<UserHome>;
  wellKnown(): Promise<WellKnownIdentity>;
  /** The same instance keeps its number. Fails when the band is full. */
  allocateAppService(instanceId: string): Promise<AppIdentity>;
  /** Idempotent. The number is inside the band. */
  releaseAppService(uid: number): Promise<void>;
  /** People and their roles. */
  roles(): Promise<ReadonlyMap<string, Role>>;
  /** Identities of apps by their instance. */
  appServices(): Promise<ReadonlyMap<string, AppIdentity>>;
}
