/** The door of the host-agent's SDK, for Node.js: typed calls over its UNIX socket. */
export { hasEnded } from "../../protocol/host-agent/job.ts";
export { type ClientCode, HostAgentCallError } from "./errors.ts";
export {
  type CallName,
  HostAgent,
  type HostAgentOptions,
  type JobName,
  type RouteArguments,
  type RouteInput,
  type StreamName,
} from "./host-agent.ts";
export { Job } from "./job.ts";
export type { Frame, StreamOptions } from "./streams.ts";
