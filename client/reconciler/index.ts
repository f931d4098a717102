/** The door of the reconciler: desired state of a host, kept by its brain. */
export {
  failureOf,
  type HostFailure,
  type ReconciledHost,
  type StateSummary,
} from "./host.ts";
export {
  ChangeRefused,
  type OperationKind,
  type OperationReport,
  Reconciler,
  type ReconcilerOptions,
  type Report,
  type SettingReport,
} from "./reconciler.ts";
export type { SettingKey, SettingValues } from "./settings.ts";
