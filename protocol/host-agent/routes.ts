/** Owns the list of everything the host-agent's socket serves, and the types that follow from it. */
import type { z } from "zod";
import type { RouteSpec } from "./route.ts";
import {
  allocateAppService,
  deleteUser,
  releaseAppService,
  setPassword,
  setRole,
  userHome,
  verifyPassword,
  wellKnownIdentity,
} from "./routes/accounts.ts";
import { discoveryPublish, discoveryState, discoveryUnpublish } from "./routes/discovery.ts";
import {
  filesCopy,
  filesDelete,
  filesDownload,
  filesList,
  filesMkdir,
  filesMove,
  filesStat,
  filesUpload,
} from "./routes/files.ts";
import {
  ejectDrive,
  enrollDrive,
  jobCancel,
  jobGet,
  jobList,
  jobLog,
  journalFollow,
  openApi,
  systemUpdate,
} from "./routes/jobs.ts";
import {
  configureIp,
  networkEvents,
  networkState,
  setPrimary,
  wifiConnect,
  wifiForget,
  wifiScan,
} from "./routes/network.ts";
import {
  healthSystem,
  reboot,
  serviceDisable,
  serviceEnable,
  serviceGet,
  serviceRestart,
  setHostname,
  setTimezone,
  shutdown,
  stateSummary,
  systemGpu,
  systemResources,
  systemStatus,
} from "./routes/system.ts";

/** Every declared route by its name. */
export const ROUTES = {
  verifyPassword,
  setPassword,
  setRole,
  deleteUser,
  userHome,
  wellKnownIdentity,
  allocateAppService,
  releaseAppService,
  discoveryPublish,
  discoveryUnpublish,
  discoveryState,
  filesList,
  filesStat,
  filesMkdir,
  filesMove,
  filesCopy,
  filesDelete,
  filesDownload,
  filesUpload,
  systemUpdate,
  enrollDrive,
  ejectDrive,
  jobList,
  jobGet,
  jobCancel,
  jobLog,
  journalFollow,
  openApi,
  networkState,
  networkEvents,
  wifiScan,
  wifiConnect,
  wifiForget,
  setPrimary,
  configureIp,
  systemStatus,
  systemResources,
  systemGpu,
  healthSystem,
  setHostname,
  setTimezone,
  reboot,
  shutdown,
  stateSummary,
  serviceGet,
  serviceEnable,
  serviceDisable,
  serviceRestart,
} as const;

export type RouteName = keyof typeof ROUTES;
type SpecOf<R extends RouteName> = (typeof ROUTES)[R];

/** What a caller gives: path parameters, query and body together, as the SDK takes them. */
export type RouteParams<R extends RouteName> = z.output<SpecOf<R>["params"]>;
export type RouteQuery<R extends RouteName> = z.output<SpecOf<R>["query"]>;
/** As a caller may give it. */
export type RouteQueryInput<R extends RouteName> = z.input<SpecOf<R>["query"]>;
/** As a handler gets it: validated, defaults filled in; null where no JSON is read. */
export type RouteBody<R extends RouteName> = SpecOf<R>["body"] extends z.ZodObject
  ? z.output<SpecOf<R>["body"]>
  : null;
/** As a caller may send it. */
export type RouteBodyInput<R extends RouteName> = SpecOf<R>["body"] extends z.ZodObject
  ? z.input<SpecOf<R>["body"]>
  : null;
/** Of the JSON answer, or of one frame of an `sse` stream. */
export type RouteResult<R extends RouteName> = z.output<SpecOf<R>["result"]>;

/** The same table without its types, for whoever serves or describes all routes alike. */
export const ALL_ROUTES: readonly RouteSpec[] = Object.values(ROUTES) as unknown as RouteSpec[];
