import { expect } from "chai";
import { type Client, connect } from "../../client/index.ts";
import { socketOpener } from "../../client/node/socket.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import { JSON_BOUNDS } from "../../protocol/frames.ts";
import { FakeControlPlane } from "../support/fake-control-plane.ts";
import { refusalOf } from "../support/refusal.ts";

/** The frame's `type`, `id`, `method` and `params`, the three parameters, and the list in the last of them. */
const OTHER_ITEMS = 8;
/** `params` stands around what is nested. */
const OTHER_DEPTH = 1;

function nested(depth: number): Record<string, unknown> {
  return { a: depth === 1 ? 1 : nested(depth - 1) };
}

function wide(members: number): Record<string, unknown> {
  return { a: Array(members).fill(0) };
}

describe("a request's JSON bounds", () => {
  let peer: FakeControlPlane;
  let client: Client;

  beforeEach(async () => {
    peer = await FakeControlPlane.start();
    client = await connect({ url: peer.url, clientId: "test", openSocket: socketOpener() });
  });
  afterEach(async () => {
    client.close();
    await client.ended;
    await peer.stop();
    // Every frame that left was one that a control plane takes.
    expect(peer.breaches).to.deep.equal([]);
  });

  const invoke = (args: Record<string, unknown>) =>
    client.call("node.invoke", { nodeId: "worker-1", method: "browser.click", args });

  async function expectSent(args: Record<string, unknown>): Promise<void> {
    const before = peer.count("node.invoke");
    expect((await refusalOf(() => invoke(args))).code).to.equal("not_implemented");
    expect(peer.count("node.invoke")).to.equal(before + 1);
  }

  /** Its refusal by a control plane would name no request: the caller would wait, and then hear that nothing is known. */
  async function expectUnsent(args: Record<string, unknown>): Promise<void> {
    const before = peer.count("node.invoke");
    expect(await refusalOf(() => invoke(args))).to.include({
      code: "invalid_request" satisfies ErrorCode,
      answered: false,
      retrySafe: false,
      mutationMayHaveApplied: false,
    });
    expect(peer.count("node.invoke")).to.equal(before);
  }

  it("leave out what is no JSON at all", async () => {
    const cycle: Record<string, unknown> = {};
    cycle["canary"] = cycle;
    for (const args of [cycle, { canary: 1n }]) {
      const error = await refusalOf(() => invoke(args));
      expect(error.code).to.equal("invalid_params");
      expect(error.message).to.not.include("canary");
    }
    expect(peer.count("node.invoke")).to.equal(0);
  });

  it("hold to the last level", async () => {
    await expectSent(nested(JSON_BOUNDS.depth - OTHER_DEPTH));
    await expectUnsent(nested(JSON_BOUNDS.depth - OTHER_DEPTH + 1));
  });

  it("hold to the last member", async () => {
    await expectSent(wide(JSON_BOUNDS.items - OTHER_ITEMS));
    await expectUnsent(wide(JSON_BOUNDS.items - OTHER_ITEMS + 1));
  });
});
