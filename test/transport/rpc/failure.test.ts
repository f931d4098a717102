import { expect } from "chai";
import fc from "fast-check";
import { ERRORS, type ErrorCode, LemonError } from "../../../protocol/errors.ts";
import { fromWire, toWire } from "../../../transport/rpc/failure.ts";

const CODES = Object.keys(ERRORS) as ErrorCode[];

describe("a failure on its way over the link", () => {
  it("keeps code, sentence, wire code, details and flags for every code of the table", () => {
    for (const code of CODES) {
      const sent = new LemonError(code, {
        details: { runs: 3, at: "start", ok: true, none: null },
      });
      const met = fromWire(toWire(sent), true);
      expect({ ...met, message: met.message }).to.deep.equal({ ...sent, message: sent.message });
    }
  });

  it("keeps the sentence and the flags that this very failure was given", () => {
    const sent = new LemonError("timeout", {
      message: "Ask with: lemon process get n1 a",
      retrySafe: true,
      mutationMayHaveApplied: false,
      wire: "CONFLICT",
    });
    const met = fromWire(toWire(sent), true);
    expect(met.message).to.equal(sent.message);
    expect([met.retrySafe, met.mutationMayHaveApplied, met.wire]).to.deep.equal([
      true,
      false,
      "CONFLICT",
    ]);
  });

  it("turns what is no LemonError into internal_error and lets nothing of it cross", () => {
    const wire = toWire(new TypeError("/home/someone/secret"));
    expect(JSON.stringify(wire)).not.to.include("secret");
    expect(fromWire(wire, true)).to.include({
      code: "internal_error",
      mutationMayHaveApplied: true,
    });
  });

  it("maps a code of a newer build to internal_error and keeps its flags", () => {
    for (const mutationMayHaveApplied of [true, false]) {
      const met = fromWire(
        {
          code: "quota_exceeded_v9",
          message: "The quota is exceeded",
          wire: "RATE_LIMITED",
          retrySafe: !mutationMayHaveApplied,
          mutationMayHaveApplied,
          details: { left: 0 },
        },
        true,
      );
      expect(met).to.include({
        code: "internal_error",
        message: "The quota is exceeded",
        wire: "RATE_LIMITED",
        retrySafe: !mutationMayHaveApplied,
        mutationMayHaveApplied,
      });
      expect(met.details).to.deep.equal({ left: 0, remoteCode: "quota_exceeded_v9" });
    }
  });

  it("never lets a read have applied anything", () => {
    expect(
      fromWire(toWire(new LemonError("internal_error")), false).mutationMayHaveApplied,
    ).to.equal(false);
  });

  it("drops a sentence and details that could harm a terminal, a log or the edge", () => {
    const met = fromWire(
      {
        ...toWire(new LemonError("no_space")),
        message: "\u001b[2Jowned",
        wire: "NO_SUCH_CODE",
        details: {
          code: "not_found",
          retrySafe: true,
          mutationMayHaveApplied: false,
          escape: "\u001b[2J",
          long: "x".repeat(257),
          nested: { a: 1 },
          "bad name": 1,
          kept: "x".repeat(256),
        },
      },
      true,
    );
    expect(met.message).to.equal(ERRORS.no_space.message);
    expect(met.wire).to.equal(ERRORS.no_space.wire);
    expect(met.details).to.deep.equal({ kept: "x".repeat(256) });
  });

  it("takes at most 16 details", () => {
    const details = Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`d${at}`, at]));
    const met = fromWire({ ...toWire(new LemonError("no_space")), details }, true);
    expect(Object.keys(met.details)).to.have.length(16);
  });

  it("reads anything else as an answer that is none, uncertain for a mutation only", () => {
    fc.assert(
      fc.property(fc.anything(), fc.boolean(), (value, mutation) => {
        expect(fromWire(value, mutation)).to.include({
          code: "invalid_remote_payload",
          mutationMayHaveApplied: mutation,
          retrySafe: !mutation,
        });
      }),
    );
  });
});
