/** Pins the table of failures to the rulings on `/ws` and to control-plane-wire.md 1.5. */
import { expect } from "chai";
import { ERRORS, type ErrorCode, LemonError, WIRE_CODES } from "../../protocol/errors.ts";

/** The rulings' table, by wire code. */
const RULED: Readonly<Record<string, readonly ErrorCode[]>> = {
  INVALID_REQUEST: [
    "invalid_params",
    "invalid_base64",
    "too_large",
    "invalid_path",
    "not_directory",
    "is_directory",
    "not_regular",
    "directory_not_empty",
    "cross_device",
    "executable_not_found",
    "argument_list_too_long",
    "duplicate_request_id",
  ],
  FORBIDDEN: ["path_not_allowed", "permission_denied", "forbidden"],
  NOT_FOUND: ["not_found", "node_not_found"],
  CONFLICT: [
    "already_exists",
    "revision_conflict",
    "stale_preview",
    "invalid_confirmation",
    "invalid_confirmation_token",
    "secret_operation_conflict",
    "process_id_conflict",
    "process_generation_mismatch",
  ],
  UNAVAILABLE: [
    "atomic_move_unavailable",
    "filesystem_busy",
    "process_receipt_limit",
    "too_many_processes",
    "secret_receipt_capacity",
    "preview_too_large",
    "no_space",
    "read_only_filesystem",
    "durability_unproven",
    "receipt_store_damaged",
    "receipt_store_unavailable",
    "node_offline",
    "capability_missing",
    "response_too_large",
    // After a lost link; after a deadline whoever waited says TIMEOUT.
    "filesystem_outcome_unknown",
    "process_outcome_unknown",
  ],
  RATE_LIMITED: ["too_many_requests_in_flight", "rate_limited"],
  TIMEOUT: ["timeout"],
  METHOD_NOT_FOUND: ["method_not_found"],
  HANDSHAKE_REQUIRED: ["handshake_required"],
  ALREADY_CONNECTED: ["already_connected"],
  UNAUTHORIZED: ["unauthorized"],
  INTERNAL_ERROR: ["internal_error"],
};

describe("the table of failures", () => {
  for (const [wire, codes] of Object.entries(RULED)) {
    it(`has ${wire} for ${codes.join(" ")}`, () => {
      for (const code of codes) expect(ERRORS[code].wire, code).to.equal(wire);
    });
  }

  it("uses no wire code that the contract does not list, and the contract's are all known", () => {
    expect([...WIRE_CODES].join(" ")).to.equal(
      "INVALID_REQUEST INVALID_PARAMS METHOD_NOT_FOUND UNAUTHORIZED FORBIDDEN PERMISSION_DENIED NOT_FOUND CONFLICT RATE_LIMITED TIMEOUT INTERNAL_ERROR NOT_IMPLEMENTED HANDSHAKE_REQUIRED ALREADY_CONNECTED UNAVAILABLE",
    );
    for (const { wire } of Object.values(ERRORS)) expect(WIRE_CODES).to.include(wire);
  });

  it("writes classifications in lower case", () => {
    for (const code of Object.keys(ERRORS)) expect(code).to.match(/^[a-z][a-z0-9_]*$/);
  });

  it("never lets anybody send again what may have happened", () => {
    for (const [code, { retrySafe, outcome }] of Object.entries(ERRORS))
      expect(retrySafe && outcome === "unknown", code).to.equal(false);
  });

  it("says of every failure in a sentence of its own what is so, without an end that a list could not take", () => {
    for (const [code, { message }] of Object.entries(ERRORS)) {
      expect(message.length, code).to.be.within(8, 300);
      expect(message, code)
        .to.match(/^[^.]/)
        .and.not.match(/[.;:,\s]$/);
      expect(new LemonError(code as ErrorCode).message).to.equal(message);
    }
  });
});
