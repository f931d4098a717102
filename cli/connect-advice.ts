/** Owns what mends it when no connection to a controller came about, where its own words do not say. */
import { ConnectError } from "../client/errors.ts";
import { certificateAdvice } from "./certificate.ts";

/** Null when there is nothing to advise. */
export function connectAdvice(error: unknown): string | null {
  if (!(error instanceof ConnectError)) return null;
  if (error.code === "unauthorized") return TOKEN_ADVICE;
  const failure = error.close?.failure ?? "";
  return certificateAdvice(error) ?? ADVICE[failure] ?? null;
}

const TOKEN_ADVICE = "give the operator's token with LEMON_WS_TOKEN or --operator-token-file";

/** By the codes of errno(3) and getaddrinfo(3). */
const ADVICE: Readonly<Record<string, string>> = {
  ECONNREFUSED:
    "nothing listens there: start a controller with `lemon up`, or correct --controller (LEMON_CONTROLLER)",
  ENOTFOUND: "no machine has that name: correct --controller (LEMON_CONTROLLER)",
  EAI_AGAIN:
    "the name could not be looked up: check the network, or --controller (LEMON_CONTROLLER)",
  EHOSTUNREACH: "check the network, or --controller (LEMON_CONTROLLER)",
  ENETUNREACH: "check the network, or --controller (LEMON_CONTROLLER)",
};
