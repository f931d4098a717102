/**
 * Owns whose token opens a guarded space of plain HTTP (protocol/http.ts): its own where one is configured,
 * else the operator's.
 *
 * 1. A wrong one costs the caller's address a guess, of the very same that `connect` counts.
 * 2. Session tokens and the loopback opt-in are of `/ws` alone: any page can make a browser send a request
 *    without a token.
 */
import { GUARDED_SPACES, type GuardedSpace } from "../../protocol/http.ts";
import type { Attempts } from "./attempts.ts";
import { authenticator, withTokenAttempts } from "./authenticate.ts";
import type { Authenticate } from "./handler.ts";

/** Resolves when the token opens the space. Errors: `unauthorized`, `rate_limited`. */
export type OpenSpace = (
  space: GuardedSpace,
  token: string,
  remoteAddress: string,
) => Promise<void>;

export interface SpacesOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly operatorToken: string;
  readonly attempts: Attempts;
}

export function spaceOpener({ environment, operatorToken, attempts }: SpacesOptions): OpenSpace {
  const doors = new Map<string, Authenticate>(
    GUARDED_SPACES.map(({ path, variables }) => {
      const own = variables
        .map((name) => environment[name]?.trim() ?? "")
        .find((set) => set !== "");
      const token = { operatorToken: own ?? operatorToken };
      const authenticate = authenticator({
        ...token,
        sessionTokens: { identify: async () => null },
        allowUnauthenticatedLoopback: false,
      });
      return [path, withTokenAttempts(authenticate, attempts, token)];
    }),
  );
  return async ({ path }, token, remoteAddress) => {
    const credentials = { token, remoteAddress, role: null, clientId: null, directLoopback: false };
    await doors.get(path)?.(credentials);
  };
}
