/** Composes `lemon up`: a control plane and a local node in one process; with an embedded hub, one nats-server. */
import { LemonError } from "../../protocol/errors.ts";
import { EXIT } from "../exit.ts";
import type { UpOptions } from "../options.ts";
import type { Announcement } from "./announcement.ts";
import { type Controller, startController } from "./controller.ts";
import { firstRun } from "./first-run.ts";
import { untilAsked } from "./foreground.ts";
import { type LocalNode, startLocalNode } from "./local-node.ts";
import { type Role, runRole } from "./role.ts";

/** Runs until it is asked to end; answers the exit code. */
export const runUp = (given: UpOptions): Promise<number> => runRole(given, serve);

async function serve({
  options,
  context,
  announcement,
  foreground,
}: Role<UpOptions>): Promise<number> {
  await using controller = await startController(options, context);
  const { localNodeRefused } = controller.hub;
  if (localNodeRefused !== null) context.say(localNodeRefused);
  await using local =
    localNodeRefused === null ? await startLocalNode(controller, options, context) : null;
  await controller.announce();
  const { url, port, tokenFile } = controller;
  announcement.ready({ host: options.host, url, port, tokenFile, nodeId: local?.nodeId ?? null });
  if (local !== null && !foreground.asked.aborted) {
    await showFirstRun(controller, local, announcement, foreground.asked);
  }

  await Promise.race([
    untilAsked(foreground, controller.ended),
    ...(local === null ? [] : [local.services.failed]),
  ]);
  await local?.services.drain(foreground.hurry);
  await controller.closeGateway();
  return EXIT.ok;
}

/** A first run that fails is told; it is no reason to stop serving. */
async function showFirstRun(
  { url, operatorToken: token, certificate }: Controller,
  node: LocalNode,
  announcement: Announcement,
  signal: AbortSignal,
): Promise<void> {
  const { nodeId } = node;
  try {
    announcement.firstRun(await firstRun({ url, token, nodeId, certificate, signal }), node);
  } catch (failure) {
    if (signal.aborted) return;
    announcement.note(
      `the first run did not work: ${failure instanceof LemonError ? failure.message : "unexpected failure"}`,
    );
  }
}
