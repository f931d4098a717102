/** Owns a brain process for tests: starts it on a database, answers it as a host, and kills it at the moment asked for. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { Report, SettingKey } from "../../client/reconciler/index.ts";
import type { RouteName } from "../../protocol/host-agent/routes.ts";
import type { HostInMemory } from "./reconciled-host.ts";

export interface BrainOrder {
  readonly set?: { readonly key: SettingKey; readonly value: unknown };
  readonly begin?: true;
}

/** Kills the brain when `route` is asked for the `nth` time: before the host hears of it, or after it was done. */
export interface KillAt {
  readonly route: RouteName;
  readonly nth?: number;
  readonly when: "before" | "after";
}

interface Question {
  readonly id?: number;
  readonly route: RouteName;
  readonly input: Parameters<HostInMemory["answer"]>[1];
  readonly report?: unknown;
}

/** Runs a brain to its end. Resolves with what it reported last; null when it was killed. */
export async function brain(
  host: HostInMemory,
  path: string,
  order: BrainOrder = {},
  kill?: KillAt,
): Promise<Report | null> {
  const child: ChildProcess = fork(new URL("./brain-program.ts", import.meta.url), {
    serialization: "advanced",
  });
  // Also its last message has come by then.
  const gone = once(child, "close");
  let report: Report | null = null;
  let asked = 0;
  child.on("message", async (message: Question) => {
    const { id, route, input } = message;
    if (id === undefined) {
      report = message.report as Report;
      return;
    }
    const isTheMoment = route === kill?.route && ++asked === (kill.nth ?? 1);
    if (isTheMoment && kill?.when === "before") {
      child.kill("SIGKILL");
      return;
    }
    try {
      const answer = await host.answer(route, input);
      if (isTheMoment) child.kill("SIGKILL");
      else child.send({ id, answer });
    } catch (failure) {
      const { code, status } = Object(failure) as { code?: string; status?: number };
      child.send({ id, failure: { code, status } });
    }
  });
  child.send({ path, ...order });
  await gone;
  return report;
}
