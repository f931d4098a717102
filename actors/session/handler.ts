/**
 * Owns the words between a session and whoever answers its methods. An actor's folder exports
 * handlers for the methods it owns; the composition puts them together; nothing else is advertised.
 */
import type { ConnectionId, NodeId } from "../../protocol/ids.ts";
import type { MethodName, ParamsOf, ResultOf } from "../../protocol/methods.ts";
import type { Role, Scope } from "../../protocol/scopes.ts";
import type { Given } from "./answer-text.ts";
import type { Connection } from "./connection.ts";

/** Who a connection proved to be. */
export interface Identity {
  readonly role: Role;
  /** What `hello-ok.auth.clientId` shows: the client's own free text for an operator, the id for a node. */
  readonly clientId: string | null;
  /** Set for role `node`: the enrolled node and the session generation its token belongs to. */
  readonly node: { readonly nodeId: NodeId; readonly sessionGeneration: number } | null;
}

/** One authenticated connection, as a handler sees it. */
export interface Caller extends Identity {
  readonly connectionId: ConnectionId;
  readonly scopes: readonly Scope[];
  /** The peer's address, for rate limits; never logged together with content. */
  readonly remoteAddress: string;
  /** Aborted when the connection ends. Work that has effects goes on all the same. */
  readonly closed: AbortSignal;
  /** Ends the connection (for example a node's session that a newer one replaced). */
  readonly close: (code: number, reason: string) => void;
}

/** Hears of each node's connection, once it is admitted; its end is `caller.closed`. */
export type OnNode = (caller: Caller, attend: Connection["attend"]) => void;

type MethodHandler<M extends MethodName> = (
  params: ParamsOf<M>,
  caller: Caller,
) => Promise<Given<ResultOf<M>>> | Given<ResultOf<M>>;

/** Handlers of some methods; their union is what a control plane serves and advertises. */
export type MethodHandlers<M extends MethodName = MethodName> = {
  readonly [K in M]: MethodHandler<K>;
};

/** What a `connect` offers. */
export interface Credentials {
  /** `auth.token`; absent, or nothing but a string, is null. */
  readonly token: string | null;
  readonly role: unknown;
  readonly clientId: string | null;
  readonly remoteAddress: string;
  /** True for a direct loopback peer without proxy headers and without a foreign `Origin`. */
  readonly directLoopback: boolean;
}

/** Decides who a connection is. Throws `unauthorized` with one of the pinned sentences. */
export type Authenticate = (credentials: Credentials) => Promise<Identity>;
