/** Owns a fake host below a folder of the test's own. */
import { join } from "node:path";
import { type FakeHostOptions, openFakeHost } from "../../host/fake/host.ts";
import type { Host } from "../../host/machine/host.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import { FakeClock } from "./fake-clock.ts";

export async function fakeHost(
  folder: string,
  options: Partial<FakeHostOptions> = {},
): Promise<Host> {
  return await openFakeHost({
    clock: new FakeClock(),
    stateFile: null,
    filesFolder: join(folder, "files"),
    ...options,
  });
}

/** The code that a call of the host-agent is refused with. */
export async function hostRefusal(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (failure) {
    if (failure instanceof HostAgentError) return failure.code;
    throw failure;
  }
  return "nothing: it was done";
}
