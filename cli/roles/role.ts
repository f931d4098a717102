/**
 * Owns what every role does around its own work: it keeps its memory its own before it holds a secret, takes the
 * signals over, and tells its failure in one line.
 */
import { EXIT } from "../exit.ts";
import { Announcement } from "./announcement.ts";
import { confidential } from "./confidential.ts";
import { type RoleContext, roleContext } from "./context.ts";
import { type Foreground, takeForeground, wasGivenUp } from "./foreground.ts";

interface RoleOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** JSON lines on standard output instead of prose. */
  readonly json: boolean;
}

export interface Role<Options extends RoleOptions> {
  readonly options: Options;
  readonly context: RoleContext;
  readonly announcement: Announcement;
  readonly foreground: Foreground;
}

/**
 * Serves until it is asked to end, or its life is over; resolves with the exit code. A start that was given up is
 * no failure; any other is told by `tellFailure`, which answers the exit code.
 */
export async function runRole<Options extends RoleOptions>(
  given: Options,
  serve: (role: Role<Options>) => Promise<number>,
  tellFailure = (failure: unknown, announcement: Announcement): number =>
    announcement.failed(failure, EXIT.failure),
): Promise<number> {
  const options = confidential(given);
  const announcement = new Announcement(options.json);
  using foreground = takeForeground();
  try {
    const context = roleContext(options.environment, announcement, foreground.asked);
    return await serve({ options, context, announcement, foreground });
  } catch (failure) {
    return wasGivenUp(failure) ? EXIT.ok : tellFailure(failure, announcement);
  }
}
