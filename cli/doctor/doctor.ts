/** Owns `lemon doctor`: what a broken set-up would have, one line a check, and how to mend it. */
import { resolve } from "node:path";
import { port, variable } from "../arguments.ts";
import { EXIT } from "../exit.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { lemonHome, type TargetFlags } from "../target.ts";
import { type Finding, findingLine } from "./check.ts";
import { checkController } from "./controller.ts";
import { checkIdentities } from "./identities.ts";
import { checkLeftovers } from "./leftovers.ts";
import { checkPort, checkRunFolder } from "./local.ts";
import {
  checkBarrier,
  checkFolders,
  checkHome,
  checkNatsServer,
  checkRuntime,
  checkSpace,
} from "./machine.ts";
import { checkMasterKey } from "./secrets.ts";

const DEFAULT_PORT = 4_040;

export interface DoctorFlags extends TargetFlags {
  /** Where a node here serves files besides the home directory. */
  readonly allowedRoot?: readonly string[];
}

/** Exit 1 when a check failed; a warning alone is no failure. */
export async function doctor(shell: Shell, report: Report, flags: DoctorFlags): Promise<number> {
  const findings: Finding[] = [];
  for await (const finding of examine(shell, flags)) {
    findings.push(finding);
    if (!report.json) await shell.stdout.write(findingLine(finding, shell.stdout.coloured));
  }
  const healthy = findings.every(({ level }) => level !== "fail");
  if (report.json) await report.result({ ok: healthy, checks: findings }, () => "");
  return healthy ? EXIT.ok : EXIT.failure;
}

async function* examine(shell: Shell, flags: DoctorFlags): AsyncGenerator<Finding> {
  const home = lemonHome(shell);
  yield checkRuntime(process.versions.node);
  yield await checkNatsServer(shell.environment);
  const state = await checkHome(home);
  yield state;
  if (state.level !== "fail") {
    yield await checkSpace(home);
    yield await checkBarrier(home);
    yield* await checkFolders(home);
    yield* await checkIdentities(home);
    yield* await checkRunFolder(home);
    yield await checkMasterKey(home, shell.environment);
  }
  const added = (flags.allowedRoot ?? []).map((root) => resolve(shell.cwd, root));
  yield await checkLeftovers([shell.homeDirectory, ...added], home);
  const portText = variable(shell.environment, "LEMON_CONTROL_PLANE_PORT");
  const usual = portText === null ? DEFAULT_PORT : port("LEMON_CONTROL_PLANE_PORT", portText);
  yield await checkPort(home, usual);
  const named =
    flags.controller !== undefined || variable(shell.environment, "LEMON_CONTROLLER") !== null;
  yield* checkController(shell, flags, named);
}
