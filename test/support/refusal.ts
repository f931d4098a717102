/** Owns the reading of an expected failure: what a promise or a call was refused with. */
import { AssertionError } from "chai";
import { LemonError } from "../../protocol/errors.ts";

/** The `LemonError` that `attempt` fails with; anything else fails the test. */
export async function refusalOf(attempt: () => unknown): Promise<LemonError> {
  try {
    await attempt();
  } catch (failure) {
    if (failure instanceof LemonError) return failure;
    throw failure;
  }
  throw new AssertionError("expected a refusal, and it succeeded");
}
