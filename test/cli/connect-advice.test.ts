import { expect } from "chai";
import { connectAdvice } from "../../cli/connect-advice.ts";
import { ConnectError } from "../../client/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import { FakeControlPlane } from "../support/fake-control-plane.ts";
import { TestShell } from "../support/test-shell.ts";

const failing = (failure: string) =>
  new ConnectError("unavailable", "unreachable", {
    message: "unreachable",
    close: { code: 1_006, reason: "", failure },
  });

describe("what mends a connection that did not come about", () => {
  for (const [failure, advice] of [
    ["ECONNREFUSED", /start a controller with `lemon up`, or correct --controller/],
    ["ENOTFOUND", /no machine has that name/],
    ["CERT_HAS_EXPIRED", /has to be renewed/],
  ] as const) {
    it(`is advised for ${failure}`, () => {
      expect(connectAdvice(failing(failure))).to.match(advice);
    });
  }

  it("is a token for one that was refused, and which variable or flag takes it", () => {
    const refused = new ConnectError("unauthorized", "refused", { message: "Invalid token" });
    expect(connectAdvice(refused)).to.match(/LEMON_WS_TOKEN or --operator-token-file/);
  });

  it("is nothing for what says it already, and for an answer to a call", () => {
    expect(connectAdvice(failing("EPIPE"))).to.equal(null);
    expect(connectAdvice(new LemonError("unauthorized"))).to.equal(null);
  });

  it("stands in the one line of a command", async () => {
    const peer = await FakeControlPlane.start();
    const { url } = peer;
    await peer.stop();
    const shell = new TestShell({ environment: { LEMON_CONTROLLER: url } });
    expect(await shell.run("status")).to.equal(1);
    expect(shell.stderr.text).to.match(/^lemon: .*ECONNREFUSED.*; nothing listens there: start/);
  });
});
