/** Owns `lemon tree`: the live supervision trees, once or again and again. */
import type { Client } from "../../client/index.ts";
import { withController } from "../dial.ts";
import { EXIT, UsageError } from "../exit.ts";
import { selectNode } from "../node/select.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";
import { drawTrees, type Trees } from "./draw.ts";

export interface TreeFlags extends TargetFlags {
  readonly node?: string;
  readonly watch?: boolean;
}

/** How often a watched tree is asked for, in ms. */
const WATCH_MS = 2_000;

const HOME_AND_CLEAR = "\u001b[H\u001b[2J\u001b[3J";

export function tree(shell: Shell, report: Report, flags: TreeFlags): Promise<number> {
  if (flags.watch === true && report.json)
    throw new UsageError("--watch and --json exclude each other: --json is one document");
  return withController(shell, report, flags, async (client) => {
    const params =
      flags.node === undefined ? {} : { nodeId: (await selectNode(client, flags.node)).nodeId };
    const first = await client.call("supervision.tree", params);
    if (flags.watch !== true) {
      await report.result(first, () => drawTrees(first, shell.stdout.coloured));
      return EXIT.ok;
    }
    return watch(shell, client, first, params);
  });
}

async function watch(
  shell: Shell,
  client: Client,
  first: Trees,
  params: { readonly nodeId?: string },
): Promise<number> {
  const interrupted = Promise.withResolvers<"interrupted">();
  const release = shell.onSignal("SIGINT", () => interrupted.resolve("interrupted"));
  try {
    for (let trees = first; ; trees = await client.call("supervision.tree", params)) {
      const drawn = drawTrees(trees, shell.stdout.coloured);
      await shell.stdout.write(shell.stdout.isTerminal ? HOME_AND_CLEAR + drawn : `${drawn}\n`);
      const pause = Promise.withResolvers<"again">();
      const cancel = shell.timers.after(WATCH_MS, () => pause.resolve("again"));
      const next = await Promise.race([pause.promise, interrupted.promise]);
      cancel();
      if (next === "interrupted") return EXIT.ok;
    }
  } finally {
    release();
  }
}
