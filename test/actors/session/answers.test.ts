import { assert } from "chai";
import { POLICY } from "../../../protocol/frames.ts";
import { codes, within } from "../../support/served-client.ts";
import type { Frame } from "../../support/ws-client.ts";

describe("an answer", () => {
  const listOf = (text: string) => ({ nodes: [], summary: { text } });
  const LARGEST_TEXT =
    POLICY.maxPayload -
    JSON.stringify({ type: "res", id: "x", ok: true, payload: listOf("") }).length;

  it("may be as large as maxPayload, and not a byte larger; the socket is kept", () => {
    let text = "";
    return within(
      {
        "node.list": () => listOf(text),
        "node.rename": async () => ({ nodeId: "n", name: text, renamed: true, summary: {} }),
      },
      async (client) => {
        const ask = (method: string): Promise<Frame> => {
          client.request(method, { nodeId: "n", name: "m" }, "x");
          return client.next();
        };
        text = "A".repeat(LARGEST_TEXT);
        assert.equal(Object((await ask("node.list")).payload).summary.text, text);
        text = "A".repeat(LARGEST_TEXT + 1);
        const read = await ask("node.list");
        assert.deepEqual(codes(read), ["UNAVAILABLE", "response_too_large"]);
        assert.notProperty(read.error?.details ?? {}, "mutationMayHaveApplied");
        const mutation = await ask("node.rename");
        assert.deepEqual(codes(mutation), ["UNAVAILABLE", "response_too_large"]);
        assert.equal(mutation.error?.details?.["mutationMayHaveApplied"], true);
        assert.equal((await client.call("health")).ok, true);
      },
    );
  });

  it("is measured in bytes, not in characters", () => {
    let text = "";
    return within({ "node.list": () => listOf(text) }, async (client) => {
      const ask = (): Promise<Frame> => {
        client.request("node.list", {}, "x");
        return client.next();
      };
      const units = Math.floor(LARGEST_TEXT / 3);
      text = "€".repeat(units);
      assert.equal((await ask()).ok, true);
      text = "€".repeat(units + 1);
      assert.equal((await ask()).error?.details?.["code"], "response_too_large");
    });
  });
});
