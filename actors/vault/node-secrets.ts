/**
 * Owns `node.secrets.*` as a worker serves them: from what came over the link to its vault, and back
 * (node-host-io.md, "Write-only encrypted secrets").
 *
 * 1. Every request is validated here again, whoever validated it before.
 * 2. A value is opened by the key of this worker life alone, and overwritten once the vault has it.
 * 3. No answer holds a value, or anything of how it is kept.
 */
import type { z } from "zod";
import { LemonError } from "../../protocol/errors.ts";
import { readRequest } from "../../protocol/params.ts";
import { Secret } from "../../protocol/secret.ts";
import {
  refuseReservedName,
  SECRET_BOUNDS,
  sealedAbout,
  type secretAnswers,
  secretRequests,
} from "../../protocol/secrets.ts";
import type { Opened, Sealed } from "../../transport/keys/sealing.ts";
import { type Rotation, SET_BY_HAND, VAULT_DEADLINE, type Vault } from "./asking.ts";

export interface NodeSecretsOptions {
  readonly vault: Vault;
  /** Opens by the worker life's own key; null for what was not sealed to it. */
  readonly open: (sealed: Sealed) => Opened | null;
  /** Puts all that is under this machine's master key under a new one. */
  readonly rotate: () => Promise<Rotation>;
}

type Answer<M extends keyof typeof secretAnswers> = z.infer<(typeof secretAnswers)[M]>;

/** Requests are what came over the link: anything. Errors: the table's; `node_superseded` for what was sealed to another life. */
export interface NodeSecrets {
  set(request: unknown): Promise<Answer<"set">>;
  list(request: unknown): Promise<Answer<"list">>;
  delete(request: unknown): Promise<Answer<"delete">>;
  receipt(request: unknown): Promise<Answer<"receipt">>;
  rotate(request: unknown): Promise<Answer<"rotate">>;
}

export function nodeSecrets({ vault, open, rotate }: NodeSecretsOptions): NodeSecrets {
  return {
    async set(request) {
      const opened = open(readRequest(secretRequests.set, request));
      // Nothing but the controller gets here, and it seals to the life that it knows.
      if (opened === null) throw new LemonError("node_superseded");
      using value = Secret.take(opened.value);
      const { name, operationId } = readRequest(sealedAbout, opened.about);
      refuseReservedName(name);
      value.use((bytes) => {
        if (bytes.length > SECRET_BOUNDS.valueBytes) throw new LemonError("too_large");
      });
      const set = await vault.ask(
        "set",
        { name, value, operationId, provider: SET_BY_HAND, expiresAtMs: null },
        VAULT_DEADLINE,
      );
      if (operationId === null) return { name: set.name, set: true };
      return {
        name: set.name,
        set: true,
        operationId,
        status: "applied",
        currentBindingMatches: true,
      };
    },

    async list(request) {
      readRequest(secretRequests.list, request);
      const { names, truncated } = await vault.ask("list", null, VAULT_DEADLINE);
      return { names: [...names], limit: SECRET_BOUNDS.listed, truncated };
    },

    async delete(request) {
      const { name } = readRequest(secretRequests.delete, request);
      refuseReservedName(name);
      return await vault.ask("delete", { name }, VAULT_DEADLINE);
    },

    async rotate(request) {
      readRequest(secretRequests.rotate, request);
      return await rotate();
    },

    async receipt(request) {
      return await vault.ask(
        "receipt",
        readRequest(secretRequests.receipt, request),
        VAULT_DEADLINE,
      );
    },
  };
}
