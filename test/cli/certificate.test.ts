import { expect } from "chai";
import { certificateAdvice } from "../../cli/certificate.ts";
import { ConnectError } from "../../client/errors.ts";
import { LemonError } from "../../protocol/errors.ts";

describe("a certificate that is not trusted", () => {
  const unreachable = (failure: string | null) =>
    new ConnectError("unavailable", "unreachable", {
      message: "The controller can not be reached",
      close: { code: 1006, reason: "", failure },
    });

  for (const [failure, advice] of [
    ["DEPTH_ZERO_SELF_SIGNED_CERT", "trust its authority with --ca-file"],
    ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "trust its authority with --ca-file"],
    ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", "trust its authority with --ca-file"],
    ["ERR_TLS_CERT_ALTNAME_INVALID", "reach it by a name that its certificate holds"],
    ["CERT_HAS_EXPIRED", "its certificate has to be renewed"],
    ["CERT_NOT_YET_VALID", "its certificate is of the future: set the clock, or wait"],
    ["ECONNREFUSED", null],
    ["HTTP 404", null],
    [null, null],
  ] as const) {
    it(`is ${advice === null ? "not what" : "mended after"} ${failure ?? "a plain end"} tells`, () => {
      expect(certificateAdvice(unreachable(failure))).to.equal(advice);
    });
  }

  it("is nothing that any other failure tells of", () => {
    expect(certificateAdvice(new LemonError("unauthorized"))).to.equal(null);
    expect(certificateAdvice(new Error("CERT_HAS_EXPIRED"))).to.equal(null);
  });
});
