/**
 * Owns what a failure of the parts that are shared with the receipts is called here: their codes tell a caller to
 * read a receipt or to join again, which would be wrong of a secret.
 */
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";

const NAMES: Partial<Record<ErrorCode, ErrorCode>> = {
  receipt_store_damaged: "secret_store_damaged",
  receipt_store_unavailable: "secret_store_unavailable",
};

/** What `work` answers or fails with, in this room's words. */
export async function inOurWords<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (failure) {
    const name = failure instanceof LemonError ? NAMES[failure.code] : undefined;
    if (!(failure instanceof LemonError) || name === undefined) throw failure;
    throw new LemonError(name, { details: failure.details, cause: failure });
  }
}
