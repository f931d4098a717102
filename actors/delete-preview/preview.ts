/**
 * Owns what one confirmation token stands for: what was previewed, under the path that the caller wrote.
 *
 * 1. It is good once: whoever is given the candidates ends it, whatever becomes of the deletion.
 * 2. It is good for five minutes of monotonic time, and as long as its actor lives: neither a restart of the
 *    service nor the loss of its helper is survived.
 * 3. A confirmation that differs is refused and spends nothing: it says that somebody mistook the path,
 *    nothing about the target, and a token of 256 bits is not found by trying.
 */
import { LemonError } from "../../protocol/errors.ts";
import { FILE_BOUNDS } from "../../protocol/files.ts";
import type { ActorSpec } from "../../supervision/actor.ts";

export interface Previewed {
  /** As it stood in the request. */
  readonly path: string;
  /** What the deletion needs, opaque. */
  readonly candidates: Uint8Array;
}

export type PreviewProtocol = {
  /** Spends it. Errors: `invalid_confirmation`, `invalid_confirmation_token` (its time is up). */
  take: (request: { readonly path: string; readonly confirm: string }) => Uint8Array;
};

/** The actor of one token. `name` stands in the tree; the token does not. */
export function previewActor(name: string, previewed: Previewed): ActorSpec<PreviewProtocol> {
  return {
    id: name,
    kind: "delete-preview",
    restart: "temporary",
    start({ clock, end }) {
      const bornMs = clock.monotonicMs();
      const cancelExpiry = clock.after(FILE_BOUNDS.previewMs, end);
      return {
        handlers: {
          take({ path, confirm }) {
            if (clock.monotonicMs() - bornMs >= FILE_BOUNDS.previewMs) {
              throw new LemonError("invalid_confirmation_token");
            }
            if (path !== previewed.path || confirm !== previewed.path) {
              throw new LemonError("invalid_confirmation");
            }
            end();
            return previewed.candidates;
          },
        },
        stop: cancelExpiry,
      };
    },
  };
}
