/**
 * Owns the subjects of the node link, each written once (node-link.md).
 *
 * 1. The second token is always the key of the node's account: the hub binds it to the account a
 *    message came from, so what stands there was proven, never claimed.
 * 2. `r` is the only reserved name among what a node may ask of the controller.
 */
import type { NodeKey } from "../../protocol/ids.ts";

/** Everything a node may subscribe to. */
export const nodeSubjects = (key: NodeKey): string => `node.${key}.>`;
/** Everything a node may publish to. */
export const controllerSubjects = (key: NodeKey): string => `ctl.${key}.>`;
/** What the controller's account offers to every node's account. */
export const NODE_EXPORT = "node.*.>";
export const CONTROLLER_EXPORT = "ctl.*.>";

/** Where a node takes calls. */
export const callSubject = (key: NodeKey): string => `node.${key}.rpc`;
/** Where the answer to one call is expected, and from that node alone. */
export const replySubject = (key: NodeKey, callId: string): string => `ctl.${key}.r.${callId}`;
export const ALL_REPLIES = "ctl.*.r.*";
/** Where a node asks something of the controller. */
export const requestSubject = (key: NodeKey, name: string): string => `ctl.${key}.${name}`;
export const allRequests = (name: string): string => `ctl.*.${name}`;
/** Prefix of a worker's own inboxes: the only place where an answer can reach it. */
export const inboxPrefix = (key: NodeKey): string => `node.${key}.i`;

const REQUEST_NAME = /^[a-z][a-z-]{1,31}$/;

/** A name that can stand as the last token of a request subject, and is not `r`. */
export function isRequestName(name: string): boolean {
  return REQUEST_NAME.test(name);
}

/** The node a message on `ctl.<key>.…` came from. */
export function senderOf(subject: string): NodeKey {
  return subject.slice(4, subject.indexOf(".", 4)) as NodeKey;
}

/** The last token: a reply's call id, or a request's name. */
export function lastToken(subject: string): string {
  return subject.slice(subject.lastIndexOf(".") + 1);
}
