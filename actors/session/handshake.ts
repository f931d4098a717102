/**
 * Owns what a `connect` says and what `hello-ok` answers (control-plane-wire.md 1.3 and 1.4). Nothing a
 * client puts there is an error but `params` that are no object: what can not be used is not there.
 */
import { EVENTS } from "../../protocol/events.ts";
import { type HelloFrame, type Policy, PROTOCOL_VERSION } from "../../protocol/frames.ts";
import { isMap, paramsMap } from "../../protocol/params.ts";
import { grantScopes, SCOPES_OF_ROLE, type Scope } from "../../protocol/scopes.ts";
import type { Caller, Credentials, Identity } from "./handler.ts";

/** The part of a `connect` that the client wrote. */
export interface Greeting extends Pick<Credentials, "token" | "role" | "clientId"> {
  readonly scopes: unknown;
}

/** A client's name for itself is shown to others, also on terminals: it is bounded, and writes in no line but its own. */
const CLIENT_ID_MAX_LENGTH = 256;
const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/** Throws `invalid_params`. The token is taken from `auth.token` and from nowhere else. */
export function readGreeting(raw: unknown): Greeting {
  const params = paramsMap(raw);
  return {
    token: stringOf(membersOf(params["auth"])["token"]),
    role: params["role"],
    clientId: printable(stringOf(membersOf(params["client"])["id"])),
    scopes: params["scopes"],
  };
}

/** A session token carries its own scopes; only an operator may ask for fewer. */
export function scopesOf(identity: Identity, asked: unknown): readonly Scope[] {
  return identity.role === "operator"
    ? grantScopes(identity.role, asked)
    : SCOPES_OF_ROLE[identity.role];
}

/** What the control plane says of itself. */
export interface ServerIdentity {
  readonly version: string;
  readonly commit: string | null;
  readonly host: string;
}

export function helloFrame(
  caller: Caller,
  server: ServerIdentity,
  methods: readonly string[],
  policy: Policy,
): HelloFrame {
  return {
    type: "hello-ok",
    protocol: PROTOCOL_VERSION,
    server: { ...server, connId: caller.connectionId },
    features: { methods, events: EVENTS },
    snapshot: { presence: {}, health: { ok: true } },
    policy,
    auth: {
      role: caller.role,
      scopes: caller.scopes,
      ...(caller.clientId === null ? {} : { clientId: caller.clientId }),
    },
  };
}

function printable(clientId: string | null): string | null {
  return clientId?.slice(0, CLIENT_ID_MAX_LENGTH).replace(UNPRINTABLE, "\u{fffd}") ?? null;
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return isMap(value) ? value : {};
}

function stringOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
