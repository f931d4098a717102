/**
 * Owns what the port proves itself with under TLS: a certificate and its private key, from the two files
 * that an operator names.
 *
 * 1. A pair that no client could accept is never served: unreadable, not one of the other, or out of its time.
 * 2. A key that others on this machine can read or change is refused. A warning would be read by nobody, and
 *    such a key has to be replaced. As other servers hold it: the file is this account's with nothing for
 *    group and others, or root's with reading for its group (the custom of a group `ssl-cert`).
 * 3. No error holds a path or a byte of either file.
 *
 * Source: RFC 5280 4.1.2.5 (validity), RFC 8446 4.4.2 (the first certificate is the server's).
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { open } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { LemonError } from "../../protocol/errors.ts";

/** Absolute paths; both PEM. Symbolic links are followed: that is how certificates are renewed. */
export interface CertificateFiles {
  /** The server's certificate, then those that lead to its authority. */
  readonly certFile: string;
  readonly keyFile: string;
}

export interface ServerCertificate {
  /** PEM, the server's own first. */
  readonly chain: string;
  readonly key: string;
  /** PEM of the server's own certificate alone. */
  readonly leaf: string;
  readonly expiresAtMs: number;
}

/** What every context of the port has in common: TLS 1.2 and 1.3, with Node's ciphers. */
export function secureContextOptions({ chain, key }: ServerCertificate) {
  return { cert: chain, key, minVersion: "TLSv1.2" } as const;
}

/** Errors: `tls_unusable`, one clear line each. */
export async function loadCertificate(
  { certFile, keyFile }: CertificateFiles,
  nowMs: number,
): Promise<ServerCertificate> {
  const chain = await readPem("--tls-cert", certFile, () => {});
  const key = await readPem("--tls-key", keyFile, refuseOpenKey);
  const certificate = parsed(() => new X509Certificate(chain), "--tls-cert holds no certificate");
  if (key.includes("ENCRYPTED")) {
    refuse("--tls-key is encrypted; give the key without a passphrase, in a file of mode 0600");
  }
  const privateKey = parsed(() => createPrivateKey(key), "--tls-key holds no private key");
  if (!certificate.checkPrivateKey(privateKey)) {
    refuse("--tls-key does not belong to the first certificate of --tls-cert");
  }
  const expiresAtMs = Date.parse(certificate.validTo);
  const beginsAtMs = Date.parse(certificate.validFrom);
  if (nowMs >= expiresAtMs) {
    refuse(`The certificate of --tls-cert expired on ${dayOf(expiresAtMs)}; renew it`);
  }
  if (nowMs < beginsAtMs) {
    refuse(
      `The certificate of --tls-cert is valid only from ${dayOf(beginsAtMs)}; check this machine's clock`,
    );
  }
  const loaded = { chain, key, leaf: certificate.toString(), expiresAtMs };
  parsed(
    () => createSecureContext(secureContextOptions(loaded)),
    "The certificates of --tls-cert can not be served",
  );
  return loaded;
}

/** Certificates of 90 days are renewed with 30 left: with this much left, nobody did. */
export const EXPIRES_SOON_MS = 14 * 24 * 60 * 60 * 1_000;

/** The day in UTC, as ISO 8601 writes it. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** A chain is a few KiB; what is larger than this is something else. */
const LARGEST_FILE_BYTES = 262_144;

async function readPem(flag: string, path: string, judge: (stats: Stats) => void): Promise<string> {
  try {
    // O_NONBLOCK: a FIFO in its place must not hang the start.
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await file.stat();
    if (!stats.isFile()) refuse(`${flag} names no regular file`);
    if (stats.size > LARGEST_FILE_BYTES) refuse(`${flag} names a file that is too large`);
    judge(stats);
    const text = await file.readFile("latin1");
    if (!text.includes("-----BEGIN ")) refuse(`${flag} names a file that is not in PEM`);
    return text;
  } catch (failure) {
    if (failure instanceof LemonError) throw failure;
    return refuse(`${flag} can not be read${codeOf(failure)}`, failure);
  }
}

const ROOT_UID = 0;
const BEYOND_OWNER = 0o077;
const BEYOND_OWNER_AND_READING_GROUP = 0o037;

function refuseOpenKey({ uid, mode }: Stats): void {
  if (uid !== ROOT_UID && uid !== process.geteuid?.()) {
    refuse("--tls-key belongs to another account; it must be this account's, or root's");
  }
  const forbidden = uid === ROOT_UID ? BEYOND_OWNER_AND_READING_GROUP : BEYOND_OWNER;
  if ((mode & forbidden) !== 0) {
    refuse("--tls-key can be read or changed by others; give it mode 0600 (chmod 600)");
  }
}

function parsed<T>(parse: () => T, sentence: string): T {
  try {
    return parse();
  } catch (failure) {
    return refuse(`${sentence}${codeOf(failure)}`, failure);
  }
}

function codeOf(failure: unknown): string {
  return failure instanceof Error && "code" in failure ? ` (${String(failure.code)})` : "";
}

function refuse(message: string, cause?: unknown): never {
  throw new LemonError("tls_unusable", { message, ...(cause === undefined ? {} : { cause }) });
}
