/** Composes `lemon start`: a control plane alone. */
import { EXIT } from "../exit.ts";
import type { StartOptions } from "../options.ts";
import { startController } from "./controller.ts";
import { untilAsked } from "./foreground.ts";
import { type Role, runRole } from "./role.ts";

/** Runs until it is asked to end; answers the exit code. */
export const runStart = (given: StartOptions): Promise<number> => runRole(given, serve);

async function serve({
  options,
  context,
  announcement,
  foreground,
}: Role<StartOptions>): Promise<number> {
  await using controller = await startController(options, context);
  if (foreground.asked.aborted) return EXIT.ok;
  await controller.announce();
  const { url, port, tokenFile } = controller;
  announcement.ready({ host: options.host, url, port, tokenFile, nodeId: null });
  await untilAsked(foreground, controller.ended);
  await controller.closeGateway();
  return EXIT.ok;
}
