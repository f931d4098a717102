/**
 * Owns the certificate of a controller over its life: loaded at the start, and loaded anew on SIGHUP.
 *
 * 1. What is on disk and can not be used never takes the place of what is served; it is told, in one line.
 * 2. One loading at a time, in the order of the signals.
 */
import {
  type CertificateFiles,
  dayOf,
  EXPIRES_SOON_MS,
  loadCertificate,
  type ServerCertificate,
} from "../../gateways/http/certificate.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { RoleContext } from "./context.ts";

export interface ServedCertificate extends Disposable {
  readonly current: ServerCertificate;
  /** Who is told of each renewal from now on, and of one that came before. */
  follow(renewed: (certificate: ServerCertificate) => Promise<void>): void;
}

type Context = Pick<RoleContext, "clock" | "log" | "say">;

/** Errors: `tls_unusable`. */
export async function serveCertificate(
  files: CertificateFiles,
  context: Context,
): Promise<ServedCertificate> {
  const served = new Served(files, context);
  await served.load();
  served.listen();
  return served;
}

class Served implements ServedCertificate {
  readonly #files: CertificateFiles;
  readonly #context: Context;
  #current: ServerCertificate | null = null;
  #unfollowed = false;
  #renewed: ((certificate: ServerCertificate) => Promise<void>) | null = null;
  #turn: Promise<void> = Promise.resolve();

  constructor(files: CertificateFiles, context: Context) {
    this.#files = files;
    this.#context = context;
  }

  get current(): ServerCertificate {
    if (this.#current === null) throw new LemonError("tls_unusable");
    return this.#current;
  }

  async load(): Promise<void> {
    const { clock, say } = this.#context;
    const nowMs = clock.nowMs();
    this.#current = await loadCertificate(this.#files, nowMs);
    const { expiresAtMs } = this.#current;
    if (expiresAtMs - nowMs < EXPIRES_SOON_MS) {
      say(
        `the certificate of --tls-cert expires on ${dayOf(expiresAtMs)}; renew it and send SIGHUP`,
      );
    }
  }

  listen(): void {
    process.on("SIGHUP", this.#onSignal);
  }

  follow(renewed: (certificate: ServerCertificate) => Promise<void>): void {
    this.#renewed = renewed;
    if (this.#unfollowed) this.#onSignal();
  }

  [Symbol.dispose](): void {
    process.off("SIGHUP", this.#onSignal);
  }

  readonly #onSignal = (): void => {
    this.#turn = this.#turn.then(() => this.#reload());
  };

  async #reload(): Promise<void> {
    const { say, log } = this.#context;
    try {
      await this.load();
      this.#unfollowed = this.#renewed === null;
      await this.#renewed?.(this.current);
      say(`the certificate was loaded anew and is valid until ${dayOf(this.current.expiresAtMs)}`);
    } catch (failure) {
      const known = failure instanceof LemonError;
      log.error(
        { code: known ? failure.code : "internal_error" },
        "the certificate stays as it was",
      );
      say(
        `the certificate that is served stays: ${known ? failure.message : "it could not be loaded anew"}`,
      );
    }
  }
}
