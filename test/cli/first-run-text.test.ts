import { expect } from "chai";
import { firstRunLines } from "../../cli/roles/announcement.ts";
import { base64, completed, NODE_ID } from "../support/node-rows.ts";

describe("what lemon up says of its first run", () => {
  const receipt = completed("probe:first-run", { stdoutBase64: base64("Linux vm\u001b[31m\n") });
  const said = (name: string): string =>
    firstRunLines(receipt, { nodeId: NODE_ID, name }).join("\n");

  it("shows the receipt, the output without what could drive a terminal, and two commands that work", () => {
    expect(said("local"))
      .to.match(/^probe:first-run ran `uname -a` through .* completed, exit 0$/m)
      .and.match(/^ {2}Linux vm\\u\{1b\}\[31m {2}\(14 B\)$/m)
      .and.match(/^ {2}npm run --silent lemon -- process run local -- uname -a$/m)
      .and.include(`  npm run --silent lemon -- process get ${NODE_ID} probe:first-run\n`);
  });

  it("names the node by its id when it was given another name", () => {
    expect(said("desk"))
      .to.include(`process run ${NODE_ID} -- uname -a`)
      .and.not.include("process run local");
  });

  it("says that an output is not kept, and that the id is spent", () => {
    const later = { ...receipt, stdoutBase64: null, stderrBase64: null, outputTruncated: true };
    const lines = firstRunLines(later, { nodeId: NODE_ID, name: "local" });
    expect(lines.join("\n")).to.match(/its output is no longer kept; its id is spent for ever/);
  });
});
