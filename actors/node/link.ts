/** Owns what this room needs of the node link: the parts of `transport/` that it uses, and no more. */
import type { HubLink } from "../../transport/link/hub.ts";
import type { RpcCaller } from "../../transport/rpc/caller.ts";
import type { CallOptions } from "../../transport/rpc/flight.ts";

export type LinkCall = CallOptions;
export type { LinkEvent } from "../../transport/link/watch.ts";

/** Accounts and credentials on the hub, and who is connected to it. */
export type LinkAccounts = Pick<
  HubLink,
  "keepsStores" | "provision" | "issue" | "revoke" | "remove" | "nodes" | "connections"
>;

/** Calls over the links. */
export type LinkCalls = Pick<RpcCaller, "call" | "settleNode">;

/** Whether the hub could issue to this key, and cut it again. */
export { isUserKey } from "../../transport/keys/account-records.ts";
