/** Owns what mends it when a controller's certificate is not trusted. */
import { ConnectError } from "../client/errors.ts";

/** Null when that is not what kept a connection from coming about. */
export function certificateAdvice(error: unknown): string | null {
  const failure = error instanceof ConnectError ? error.close?.failure : null;
  return failure !== null && failure !== undefined && isCertificateFailure(failure)
    ? (ADVICE[failure] ?? "trust its authority with --ca-file")
    : null;
}

/** Whether a socket failed with one of Node's codes for a certificate (its TLS documentation, "X509 certificate error codes"). */
export function isCertificateFailure(failure: string): boolean {
  return failure.includes("CERT") || failure === "UNABLE_TO_VERIFY_LEAF_SIGNATURE";
}

const ADVICE: Readonly<Record<string, string>> = {
  ERR_TLS_CERT_ALTNAME_INVALID: "reach it by a name that its certificate holds",
  CERT_HAS_EXPIRED: "its certificate has to be renewed",
  CERT_NOT_YET_VALID: "its certificate is of the future: set the clock, or wait",
};
