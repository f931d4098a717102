import { expect } from "chai";
import type { NodeKey } from "../../../protocol/ids.ts";
import type { SystemConnection } from "../../../transport/link/system-api.ts";
import { type LinkEvent, LinkWatch } from "../../../transport/link/watch.ts";
import { FakeClock } from "../../support/fake-clock.ts";

const NODE = "A1" as NodeKey;
/** The node in the controller's own process, which comes over plain connections. */
const LOCAL = "A0" as NodeKey;

describe("the watch over links", () => {
  let clock: FakeClock;
  let events: string[];
  let renewal: number | null;
  let watch: LinkWatch;

  beforeEach(() => {
    clock = new FakeClock();
    events = [];
    renewal = null;
    watch = new LinkWatch({
      clock,
      isNode: (account): account is NodeKey => account.startsWith("A"),
      isLeaf: (account) => account !== LOCAL,
      renewal: () => renewal,
      emit: (event) => events.push(text(event)),
    });
  });
  afterEach(() => {
    watch.stop();
    expect(clock.pending, "timers left").to.equal(0);
  });

  function text(event: LinkEvent): string {
    if (event.type === "shared") return `shared ${event.account} ${event.userKey}`;
    const { connection } = event;
    const id = connection.id.replace("S1:", "");
    const place = event.type === "connected" && event.displaces ? " in another's place" : "";
    const rest = event.type === "disconnected" ? ` ${event.remaining} ${event.reason}` : place;
    return `${event.type} ${id}${rest}`;
  }

  const link = (id: string, own: Partial<SystemConnection> = {}): SystemConnection => ({
    id: id.includes(":") ? id : `S1:${id}`,
    account: NODE,
    userKey: "U1",
    name: "n-1",
    ...own,
  });

  it("tells each coming and going once, and nothing of accounts that are no node's", () => {
    watch.connected(link("1"));
    watch.connected(link("1"));
    watch.connected(link("2", { account: "OTHER" }));
    watch.disconnected(link("1"), "Client Closed");
    watch.disconnected(link("1"), "Client Closed");
    watch.disconnected(link("2"), "Client Closed");
    expect(events).to.deep.equal(["connected 1", "disconnected 1 0 Client Closed"]);
  });

  it("names who is connected now", () => {
    watch.connected(link("1"));
    watch.connected(link("2", { account: "A2", userKey: "U2" }));
    watch.disconnected(link("2"), "");
    expect(watch.connections(NODE).map(({ id }) => id)).to.deep.equal(["S1:1"]);
    expect(watch.connections("A2" as NodeKey)).to.deep.equal([]);
  });

  describe("after a gap", () => {
    it("tells the difference to what it knew", async () => {
      watch.connected(link("1"));
      watch.connected(link("2", { userKey: "U2", name: "n-2" }));
      events.length = 0;
      await watch.reconcile(async () => [
        link("2", { userKey: "U2", name: "n-2" }),
        link("3", { userKey: "U3", name: "n-3" }),
      ]);
      expect(events).to.deep.equal(["disconnected 1 0 ", "connected 3"]);
    });

    it("believes an advisory that came while the list was on its way more than the list", async () => {
      watch.connected(link("1"));
      events.length = 0;
      await watch.reconcile(async () => {
        watch.disconnected(link("1"), "Client Closed");
        watch.connected(link("2"));
        watch.disconnected(link("9", { userKey: "U9" }), "");
        return [link("1"), link("9", { userKey: "U9" })];
      });
      expect(events).to.deep.equal(["disconnected 1 0 Client Closed", "connected 2"]);
      expect(watch.connections(NODE).map(({ id }) => id)).to.deep.equal(["S1:2"]);
    });

    it("changes nothing when the list can not be had", async () => {
      watch.connected(link("1"));
      events.length = 0;
      let failed = false;
      await watch
        .reconcile(() => Promise.reject(new Error("no answer")))
        .catch(() => {
          failed = true;
        });
      expect([failed, events]).to.deep.equal([true, []]);
    });
  });

  describe("over a node that renews its link", () => {
    beforeEach(() => {
      watch.connected(link("1"));
      events.length = 0;
      renewal = 1;
    });

    it("does not tell the loss when the link is back within 3 s", async () => {
      watch.disconnected(link("1"), "Client Closed");
      await clock.advance(2_999);
      watch.connected(link("2"));
      await clock.advance(10_000);
      expect(events).to.deep.equal(["connected 2"]);
    });

    it("tells it after 3 s when it is not", async () => {
      watch.disconnected(link("1"), "Client Closed");
      await clock.advance(2_999);
      expect(events).to.deep.equal([]);
      await clock.advance(1);
      expect(events).to.deep.equal(["disconnected 1 0 Client Closed"]);
    });

    it("tells at once what the hub itself has cut", () => {
      watch.disconnected(link("1"), "Credentials Revoked");
      expect(events).to.deep.equal(["disconnected 1 0 Credentials Revoked"]);
    });

    it("lets no other key's link cover for it", async () => {
      watch.disconnected(link("1"), "Client Closed");
      watch.connected(link("2", { userKey: "U2", name: "n-2" }));
      await clock.advance(3_000);
      expect(events).to.deep.equal(["connected 2", "disconnected 1 0 Client Closed"]);
    });
  });

  describe("over a link that came with a renewal", () => {
    beforeEach(() => {
      watch.connected(link("1"));
      renewal = 1;
      watch.disconnected(link("1"), "Client Closed");
      watch.connected(link("2"));
      events.length = 0;
    });

    it("tells its loss at once: what it carried is gone, though the renewal was a moment ago", () => {
      watch.disconnected(link("2"), "Client Closed");
      expect(events).to.deep.equal(["disconnected 2 0 Client Closed"]);
    });

    it("tells that another takes its place", () => {
      watch.connected(link("3"));
      expect(events).to.deep.equal(["connected 3 in another's place"]);
    });

    it("takes its end in the next renewal for no loss", async () => {
      renewal = 2;
      watch.disconnected(link("2"), "Client Closed");
      watch.connected(link("3"));
      await clock.advance(3_000);
      expect(events).to.deep.equal(["connected 3"]);
    });
  });

  describe("over credentials", () => {
    it("tells at once that two server names use one key", () => {
      watch.connected(link("1"));
      watch.connected(link("2", { name: "n-thief" }));
      expect(events).to.deep.equal(["connected 1", "connected 2", "shared A1 U1"]);
    });

    it("finds it also in the list after a gap", async () => {
      await watch.reconcile(async () => [link("1"), link("2", { name: "n-thief" })]);
      expect(events).to.include("shared A1 U1");
    });

    it("tells that two links stand side by side under one name for a second", async () => {
      watch.connected(link("1"));
      watch.connected(link("2"));
      await clock.advance(999);
      expect(events).to.deep.equal(["connected 1", "connected 2 in another's place"]);
      await clock.advance(1);
      expect(events.at(-1)).to.equal("shared A1 U1");
    });

    it("thinks nothing of a leaf that comes back before its dead link was noticed", async () => {
      watch.connected(link("1"));
      watch.connected(link("2"));
      watch.disconnected(link("1"), "Duplicate Remote LeafNode Connection");
      await clock.advance(60_000);
      expect(events).to.deep.equal([
        "connected 1",
        "connected 2 in another's place",
        "disconnected 1 1 Duplicate Remote LeafNode Connection",
      ]);
    });

    it("tells that a leaf takes its own link's place, at any server, but not when that is a renewal's", () => {
      watch.connected(link("1"));
      watch.connected(link("S2:1"));
      expect(events.at(-1)).to.equal("connected S2:1 in another's place");
      renewal = 1;
      watch.connected(link("2"));
      expect(events.at(-1)).to.equal("connected 2");
    });

    it("tells that links displace each other for the fifth time in 20 s, and not for the fourth", async () => {
      const displace = (id: number): void => {
        watch.connected(link(`${id + 1}`));
        watch.disconnected(link(`${id}`), "Duplicate Remote LeafNode Connection");
      };
      watch.connected(link("1"));
      for (let id = 1; id <= 4; id++) {
        displace(id);
        await clock.advance(4_000);
      }
      expect(events.filter((event) => event.startsWith("shared"))).to.deep.equal([]);
      // The first is 20 s ago by now, and counts no more.
      await clock.advance(4_000);
      displace(5);
      expect(events.filter((event) => event.startsWith("shared"))).to.deep.equal([]);
      displace(6);
      expect(events.at(-2)).to.equal("shared A1 U1");
    });

    it("accuses nobody of a leaf that comes back at another server of a cluster until ten minutes have shown that its old link lives", async () => {
      watch.connected(link("1"));
      for (let id = 1; id <= 6; id++) {
        watch.connected(link(`S2:${id}`));
        watch.disconnected(link(`S2:${id}`), "Client Closed");
      }
      watch.connected(link("S2:7"));
      await clock.advance(600_999);
      expect(events.filter((event) => event.startsWith("shared"))).to.deep.equal([]);
      await clock.advance(1);
      expect(events.at(-1)).to.equal("shared A1 U1");
    });

    it("tells of a second name at any server, and of nothing for the node in the controller's own process", () => {
      watch.connected(link("1"));
      watch.connected(link("S2:1", { name: "n-thief" }));
      expect(events.at(-1)).to.equal("shared A1 U1");
      events.length = 0;
      watch.connected(link("3", { account: LOCAL, userKey: "U0", name: "worker-link" }));
      watch.connected(link("4", { account: LOCAL, userKey: "U0", name: "worker-other" }));
      watch.connected(link("5", { account: LOCAL, userKey: "U0", name: "worker-link" }));
      expect(events).to.deep.equal(["connected 3", "connected 4", "connected 5"]);
    });

    describe("with a list to ask for", () => {
      let listed: SystemConnection[] | null;
      let asked: number;
      let onAsk: () => void;
      let asking: LinkWatch;

      beforeEach(() => {
        listed = [];
        asked = 0;
        onAsk = () => undefined;
        asking = new LinkWatch({
          clock,
          isNode: (account): account is NodeKey => account.startsWith("A"),
          isLeaf: () => true,
          renewal: () => null,
          emit: (event) => events.push(text(event)),
          refresh() {
            asked += 1;
            onAsk();
            return asking.reconcile(() =>
              listed === null ? Promise.reject(new Error("no answer")) : Promise.resolve(listed),
            );
          },
        });
        asking.connected(link("1"));
        asking.connected(link("S2:1"));
        events.length = 0;
      });
      afterEach(() => asking.stop());

      it("finds the link that died with its server, after a second and without an advisory", async () => {
        listed = [link("S2:1")];
        await clock.advance(999);
        expect([asked, events]).to.deep.equal([0, []]);
        await clock.advance(1);
        expect([asked, events]).to.deep.equal([1, ["disconnected 1 1 "]]);
        await clock.advance(60_000);
        expect(asked).to.equal(1);
      });

      it("asks again every second while nobody answers, and accuses nobody", async () => {
        listed = null;
        await clock.advance(3_000);
        expect([asked, events]).to.deep.equal([3, []]);
        listed = [link("S2:1")];
        await clock.advance(1_000);
        expect(events).to.deep.equal(["disconnected 1 1 "]);
      });

      it("accuses whoever still stands beside another at one server", async () => {
        asking.disconnected(link("S2:1"), "Client Closed");
        asking.connected(link("2"));
        listed = [link("1"), link("2")];
        await clock.advance(1_000);
        expect(events.at(-1)).to.equal("shared A1 U1");
      });

      it("accuses nobody once it was stopped while it asked", async () => {
        asking.disconnected(link("S2:1"), "Client Closed");
        asking.connected(link("2"));
        listed = [link("1"), link("2")];
        onAsk = () => asking.stop();
        await clock.advance(1_000);
        expect([asked, events.includes("shared A1 U1")]).to.deep.equal([1, false]);
      });
    });

    it("tells it once for a key", () => {
      watch.connected(link("1"));
      watch.connected(link("2", { name: "n-2" }));
      watch.connected(link("3", { name: "n-3" }));
      expect(events.filter((event) => event.startsWith("shared"))).to.deep.equal(["shared A1 U1"]);
    });
  });
});
