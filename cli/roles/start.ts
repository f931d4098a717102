/** Composes `lemon start`: a control plane alone. */
import { EXIT } from "../exit.ts";
import type { StartOptions } from "../options.ts";
import { Announcement } from "./announcement.ts";
import { confidential } from "./confidential.ts";
import { roleContext } from "./context.ts";
import { startController } from "./controller.ts";
import { takeForeground, untilAsked, wasGivenUp } from "./foreground.ts";

/** Runs until it is asked to end; answers the exit code. */
export async function runStart(given: StartOptions): Promise<number> {
  const options = confidential(given);
  const announcement = new Announcement(options.json);
  using foreground = takeForeground();
  try {
    await using controller = await startController(
      options,
      roleContext(options.environment, announcement, foreground.asked),
    );
    if (foreground.asked.aborted) return EXIT.ok;
    await controller.announce();
    const { url, port, tokenFile } = controller;
    announcement.ready({ host: options.host, url, port, tokenFile, nodeId: null });
    await untilAsked(foreground, controller.ended);
    await controller.closeGateway();
    return EXIT.ok;
  } catch (failure) {
    return wasGivenUp(failure) ? EXIT.ok : announcement.failed(failure, EXIT.failure);
  }
}
