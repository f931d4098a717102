/**
 * Owns how a controller's port stands open: its certificate, the proxies it believes, the pages it lets
 * in. Lists are given by repeated flags, or by one variable with commas between.
 */
import { resolve } from "node:path";
import type { CertificateFiles } from "../gateways/http/certificate.ts";
import { parseOrigin } from "../gateways/http/origin.ts";
import { type Network, parseNetwork } from "../gateways/http/proxies.ts";
import { variable } from "./arguments.ts";
import { UsageError } from "./exit.ts";
import type { Shell } from "./shell.ts";

export interface DoorOptions {
  /** Null: no TLS. What the files hold is judged when they are loaded. */
  readonly tls: CertificateFiles | null;
  readonly trustedProxies: readonly Network[];
  /** As `parseOrigin` gives them. */
  readonly allowedOrigins: readonly string[];
}

export interface DoorFlags {
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly trustedProxy?: readonly string[];
  readonly allowedOrigin?: readonly string[];
}

type Place = Pick<Shell, "environment" | "cwd">;

export function doorOptions(shell: Place, flags: DoorFlags): DoorOptions {
  return {
    tls: certificateFiles(shell, flags),
    trustedProxies: listOf(
      shell,
      { flag: "--trusted-proxy", given: flags.trustedProxy, variable: "LEMON_TRUSTED_PROXIES" },
      parseNetwork,
      "an address, or a network such as 10.0.0.0/8 or fd00::/8: nothing beyond its prefix, and not /0",
    ),
    allowedOrigins: listOf(
      shell,
      { flag: "--allowed-origin", given: flags.allowedOrigin, variable: "LEMON_ALLOWED_ORIGINS" },
      parseOrigin,
      "the origin of a page such as https://app.example or http://app.example:8080: no path, no wildcard",
    ),
  };
}

function certificateFiles(shell: Place, flags: DoorFlags): CertificateFiles | null {
  const cert = flags.tlsCert ?? variable(shell.environment, "LEMON_TLS_CERT");
  const key = flags.tlsKey ?? variable(shell.environment, "LEMON_TLS_KEY");
  if (cert === null && key === null) return null;
  // A blank one (a variable that is not set) would resolve to wherever the user stands.
  if (!cert?.trim() || !key?.trim())
    throw new UsageError("TLS wants both a certificate (--tls-cert) and its key (--tls-key)");
  return { certFile: resolve(shell.cwd, cert), keyFile: resolve(shell.cwd, key) };
}

interface ListSource {
  readonly flag: string;
  readonly given: readonly string[] | undefined;
  readonly variable: string;
}

function listOf<T>(
  { environment }: Place,
  { flag, given, variable: name }: ListSource,
  parse: (text: string) => T | null,
  wanted: string,
): readonly T[] {
  const texts = given ?? variable(environment, name)?.split(",") ?? [];
  return texts.map((text) => {
    const value = parse(text.trim());
    if (value === null)
      throw new UsageError(`${given === undefined ? name : flag} wants ${wanted}`);
    return value;
  });
}
