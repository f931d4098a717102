/** Proves the links that the leaf proxy joins: byte for byte, to their end, and room for strangers. */
import { once } from "node:events";
import { expect } from "chai";
import { type Line, ProxiedLeaf } from "../../support/proxied-leaf.ts";

describe("the leaf proxy", () => {
  let leaf: ProxiedLeaf;

  beforeEach(async () => {
    leaf = await ProxiedLeaf.open();
  });
  afterEach(() => leaf.close());

  describe("gives strangers room of their own", () => {
    it("in which the one that has been silent longest makes room for the next", async () => {
      leaf.proxy = leaf.newProxy({ strangers: 2 });
      const first = await leaf.link();
      const second = await leaf.link();
      const third = await leaf.link();
      await first.node.closed();
      await first.behind.closed();
      await leaf.known(second);
      await leaf.known(third);
    });

    it("and a node that the hub took in is none of them, however many knock", async () => {
      leaf.proxy = leaf.newProxy({ strangers: 2, links: 4 });
      const node = await leaf.link();
      await leaf.known(node);
      const flood: Line[] = [];
      for (let n = 0; n < 6; n += 1) flood.push((await leaf.link()).node);
      for (const stranger of flood.slice(0, 4)) await stranger.closed();
      const another = await leaf.link();
      await leaf.known(another);
      await leaf.known(node);
      expect(node.node.ended || node.node.socket.destroyed).to.equal(false);
    });
  });

  describe("joins the two", () => {
    it("byte for byte, in both directions, and counts what each sends", async () => {
      const { node, behind } = await leaf.link();
      const bytes = Buffer.from(Array.from({ length: 256 }, (_, at) => at));
      const up = Buffer.concat(Array.from({ length: 4_000 }, () => bytes));
      const down = up.subarray(0, 500_000);
      node.socket.write(up);
      behind.socket.write(down);
      await Promise.all([
        behind.until(() => behind.received.length === up.length),
        node.until(() => node.received.length === down.length),
      ]);
      expect(behind.received.equals(up)).to.equal(true);
      expect(node.received.equals(down)).to.equal(true);
      expect([leaf.taken, leaf.given]).to.deep.equal([up.length, down.length]);
    });

    it("and lets a node wait that the ration holds, while the hub's bytes still come", async () => {
      const { node, behind } = await leaf.link();
      leaf.held?.hold();
      node.socket.write("held");
      behind.socket.write("comes");
      await node.holds("comes");
      expect(behind.text).to.equal("");
      leaf.held?.release();
      await behind.holds("held");
    });

    it("until one ends: what is under way arrives, and the other may still answer", async () => {
      const { node, behind } = await leaf.link();
      node.socket.end("last words");
      await behind.until(() => behind.ended);
      expect(behind.text).to.equal("last words");
      behind.socket.end("answer");
      await node.until(() => node.ended);
      expect(node.text).to.equal("answer");
      await Promise.all([node.closed(), behind.closed()]);
    });

    it("until the hub ends, in the same way", async () => {
      const { node, behind } = await leaf.link();
      behind.socket.end("last words");
      await node.until(() => node.ended);
      node.socket.end("answer");
      await behind.until(() => behind.ended);
      expect([node.text, behind.text]).to.deep.equal(["last words", "answer"]);
    });

    it("and cuts a side that does not end within 5 s of the other", async () => {
      const { node, behind } = await leaf.link();
      node.socket.end();
      await behind.until(() => behind.ended);
      await leaf.clock.advance(4_999);
      expect(behind.socket.destroyed).to.equal(false);
      const cut = once(node.socket, "close");
      await leaf.clock.advance(1);
      await node.closed();
      node.socket.destroy();
      await cut;
    });

    for (const first of ["node", "hub"] as const) {
      it(`and cuts the other at once when the ${first}'s line breaks`, async () => {
        const { node, behind } = await leaf.link();
        const [broken, other] = first === "node" ? [node, behind] : [behind, node];
        broken.socket.resetAndDestroy();
        await other.closed();
        other.socket.destroy();
      });
    }

    it("and forgets a link that is over", async () => {
      const { node, behind } = await leaf.link();
      expect(leaf.proxy.snapshot().links).to.equal(1);
      node.socket.end();
      behind.socket.end();
      await Promise.all([node.closed(), behind.closed()]);
      node.socket.destroy();
      behind.socket.destroy();
      // Another link's round trip: by then the first one's end has been seen.
      await leaf.link();
      expect([leaf.proxy.snapshot(), leaf.left]).to.deep.equal([{ links: 1, pending: 0 }, 1]);
    });

    it("until it is closed itself", async () => {
      const { node, behind } = await leaf.link();
      leaf.proxy.close();
      await Promise.all([node.closed(), behind.closed()]);
    });
  });
});
