/**
 * Owns the actor of one vault: its mailbox is the queue in which requests take turns, and what has to be done
 * without being asked goes through it as well.
 *
 * 1. It starts whether or not its store or its keys are there: each request is answered with what is so then.
 * 2. What expired is erased, and what was counted is stored, at the latest `SOON_MS` after.
 * 3. When another process changes the master key, the secrets follow at once.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { ActorRef, ActorSpec, SupervisorRef } from "../../supervision/actor.ts";
import type { VaultMessages } from "./messages.ts";
import { Vault, type VaultParts } from "./vault.ts";

type OwnMessages = VaultMessages & {
  /** To itself. */
  tidy: (nothing: null) => void;
};

const SOON_MS = 1_000;
/** One that could not be finished is tried again with the next request, or after this. */
const AGAIN_MS = 60_000;
/** The counts are stored, and the store is closed. */
const SHUTDOWN_MS = 5_000;
const MAILBOX = 256;

/** Starts a vault below `parent`. */
export function startVault(
  parent: SupervisorRef,
  parts: VaultParts,
): Promise<ActorRef<VaultMessages>> {
  return parent.startActor(vaultActor(parts));
}

function vaultActor(parts: VaultParts): ActorSpec<OwnMessages> {
  return {
    id: "vault",
    kind: "vault",
    restart: "permanent",
    shutdownMs: SHUTDOWN_MS,
    mailboxCapacity: MAILBOX,
    start({ self, clock, log }) {
      const vault = new Vault(parts);
      let cancel = (): void => {};
      /** On the monotonic clock. */
      let dueMs = Number.POSITIVE_INFINITY;
      /** It is in the mailbox. */
      let isTidying = false;
      /** Why it could not be tidied up last, so that each reason is told once. */
      let told: string | null = null;

      /** The earliest that was asked for counts. */
      function tidyIn(ms: number): void {
        const atMs = clock.monotonicMs() + ms;
        if (atMs >= dueMs) return;
        cancel();
        dueMs = atMs;
        cancel = clock.after(ms, () => {
          dueMs = Number.POSITIVE_INFINITY;
          try {
            if (!isTidying) self.tell("tidy", null);
            isTidying = true;
          } catch {
            // So many wait that the next of them will see to it.
          }
        });
      }

      /** Sees to what a request left to be done. */
      async function served<T>(answer: Promise<T>): Promise<T> {
        try {
          return await answer;
        } finally {
          const expiryMs = vault.nextExpiryMs;
          if (vault.hasUnstoredUses) tidyIn(SOON_MS);
          else if (expiryMs !== null) tidyIn(Math.max(0, expiryMs - clock.nowMs()));
        }
      }

      let unwatch = (): void => {};
      try {
        unwatch = parts.keys.watch(() => tidyIn(0));
      } catch (failure) {
        log.warn({ code: codeOf(failure) }, "a new master key is followed at the next start only");
      }
      tidyIn(0);
      return {
        handlers: {
          set: (request) => served(vault.set(request)),
          list: () => served(vault.list()),
          entries: () => served(vault.entries()),
          delete: (request) => served(vault.delete(request)),
          exists: (request) => served(vault.exists(request)),
          receipt: (request) => served(vault.receipt(request)),
          resolve: (request) => served(vault.resolve(request)),
          status: () => served(vault.status()),
          async rotate(request) {
            try {
              return await served(vault.rotate(request));
            } catch (failure) {
              // The new key may be in its place already.
              tidyIn(AGAIN_MS);
              throw failure;
            }
          },
          async tidy() {
            isTidying = false;
            try {
              await served(vault.tidy());
              told = null;
            } catch (failure) {
              const code = codeOf(failure);
              if (code !== told) log.warn({ code }, "the vault could not be tidied up");
              told = code;
              await vault.tellBehind().catch(() => {});
              tidyIn(AGAIN_MS);
            }
          },
        },
        async stop() {
          unwatch();
          cancel();
          if (vault.hasUnstoredUses) await vault.tidy().catch(() => {});
          await vault.close();
        },
      };
    },
  };
}

function codeOf(failure: unknown): string {
  return failure instanceof LemonError ? failure.code : "internal_error";
}
