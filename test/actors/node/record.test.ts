/** Proves what always holds of a node's record, whatever befalls it. */
import { expect } from "chai";
import fc from "fast-check";
import {
  admitLife,
  enrolled,
  lifeOpened,
  lifeRenewed,
  lifeRetired,
  linkKeysCut,
  type NodeRecord,
  nodeRecord,
  type Opening,
  removalBegun,
  revoked,
  sessionBegun,
  storeSeen,
  tokenIssued,
  tokenUsed,
} from "../../../actors/node/record.ts";
import { sha256 } from "../../../actors/node/secrets.ts";
import type { NodeId } from "../../../protocol/ids.ts";
import { codeOfThrow } from "../../support/supervision.ts";

const fresh = (): NodeRecord =>
  enrolled(
    {
      nodeId: "0d6f2f5e-8d51-4b0f-9a55-2f1f3f1f7a10" as NodeId,
      name: "worker-1",
      type: "coding_agent",
      capabilities: {},
      recoveryHash: sha256("recovery"),
      local: false,
    },
    1_000,
  );
const life = (linkKey: string, store: Partial<Opening> = {}): Opening => ({
  linkKey,
  sealKey: "seal",
  serverName: "server",
  lemonVersion: "2026.11.0",
  capabilities: {},
  storeId: null,
  storeSequence: null,
  ...store,
});
const token = (name: string, issuedAtMs = 0) => ({ hash: sha256(name), issuedAtMs });

describe("a node's record", () => {
  it("survives being stored and read, and refuses whatever is not one", () => {
    const record = lifeOpened(sessionBegun(fresh(), token("a")), life("U1"), 2_000);
    expect(nodeRecord.parse(JSON.parse(JSON.stringify(record)))).to.deep.equal(record);
    for (const foreign of [
      null,
      {},
      { ...record, version: 2 },
      { ...record, more: 1 },
      { ...record, name: undefined },
      { ...record, recoveryHash: "recovery" },
      { ...record, sessions: [{ ...record.sessions[0], hash: "token" }] },
    ]) {
      expect(nodeRecord.safeParse(foreign).success).to.equal(false);
    }
  });

  it("remembers the 64 newest retired keys, so that none of them is ever current again", () => {
    let record = fresh();
    for (let count = 0; count <= 65; count += 1) record = lifeOpened(record, life(`U${count}`), 0);
    expect(record.retiredLinkKeys).to.have.length(64);
    expect(record.generation).to.equal(66);
    const code = (key: string) => codeOfThrow(() => admitLife(record, key, null));
    expect(code("U65")).to.equal("returned");
    expect(code("U64")).to.equal("node_superseded");
    expect(code("U1")).to.equal("node_superseded");
    // Forgotten: the session token of so old a life is what stops it.
    expect(code("U0")).to.equal("returned");
  });

  it("keeps its life's other facts over a renewal, and learns of its store", () => {
    const record = lifeOpened(fresh(), life("U1"), 5);
    const renewed = lifeRenewed(record, life("U1", { storeId: "s", storeSequence: 3 }), 9);
    expect(renewed.life).to.deep.equal(record.life);
    expect([renewed.lastSeenMs, renewed.generation]).to.deep.equal([9, 1]);
    expect(renewed.store).to.deep.equal({ id: "s", sequence: 3 });
  });

  it("is the very same when nothing changed, so that nothing is written", () => {
    const record = storeSeen(fresh(), "s", 3);
    expect(storeSeen(record, "s", 3)).to.equal(record);
    expect(storeSeen(record, "other", 9)).to.equal(record);
    expect(storeSeen(record, null, 9)).to.equal(record);
    expect(revoked(revoked(record))).to.deep.equal(revoked(record));
    const used = sessionBegun(record, token("a"));
    expect(used.sessions[0] && tokenUsed(used, used.sessions[0])).to.equal(used);
    expect(lifeRetired(record)).to.equal(record);
  });

  it("holds no secret once removal has begun, and no way back", () => {
    const record = removalBegun(lifeOpened(sessionBegun(fresh(), token("a")), life("U1"), 0));
    expect(record).to.deep.include({
      removing: true,
      revoked: true,
      sessions: [],
      recoveryHash: null,
      life: null,
      uncutLinkKeys: ["U1"],
    });
  });

  it("rises in its generations, has one life at most, and stays bounded, whatever befalls it", () => {
    const key = fc.nat({ max: 5 }).map((n) => `U${n}`);
    const event = fc.oneof(
      key.map((k) => ["open", k] as const),
      fc.constant(["begin"] as const),
      fc.constant(["issue"] as const),
      fc.nat({ max: 30 }).map((n) => ["use", n] as const),
      fc.constant(["revoke"] as const),
      fc.constant(["retire"] as const),
      fc.constant(["cut"] as const),
      fc.tuple(fc.constantFrom("s", "t"), fc.nat()).map((seen) => ["store", ...seen] as const),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 150 }), (events) => {
        let record = fresh();
        let tokens = 0;
        const next = () => {
          tokens += 1;
          return token(`t${tokens}`, tokens);
        };
        const wasCurrent = new Set<string>();
        for (const [what, ...args] of events) {
          const before: NodeRecord = record;
          const [first, second] = args;
          if (what === "open" && typeof first === "string") {
            const admitted = codeOfThrow(() => admitLife(before, first, null)) === "returned";
            if (!admitted) continue;
            record =
              before.life?.linkKey === first
                ? lifeRenewed(before, life(first), 0)
                : lifeOpened(before, life(first), 0);
            if (before.life?.linkKey !== first) expect(wasCurrent.has(first)).to.equal(false);
            wasCurrent.add(first);
          } else if (what === "begin") record = sessionBegun(before, next());
          else if (what === "issue") record = tokenIssued(before, next());
          else if (what === "use" && typeof first === "number") {
            const row = before.sessions[first];
            if (row && row.generation >= before.sessionGeneration) record = tokenUsed(before, row);
          } else if (what === "revoke") record = revoked(before);
          else if (what === "retire") record = lifeRetired(before);
          else if (what === "cut") record = linkKeysCut(before, before.uncutLinkKeys);
          else if (what === "store" && typeof first === "string" && typeof second === "number") {
            record = storeSeen(before, first, second);
          }
          expect(record.generation).to.be.at.least(before.generation);
          expect(record.sessionGeneration).to.be.at.least(before.sessionGeneration);
          expect(record.store?.sequence ?? 0).to.be.at.least(before.store?.sequence ?? 0);
          if (before.store) expect(record.store?.id).to.equal(before.store.id);
          expect(record.sessions.length).to.be.at.most(16 + 1 + 8);
          const generations = record.sessions.map(({ generation }) => generation);
          expect(generations).to.deep.equal([...new Set(generations)].sort((a, b) => a - b));
          if (record.revoked) expect(record.life).to.equal(null);
          expect(record.retiredLinkKeys).to.not.include(record.life?.linkKey);
          // The token used last is never dropped: it is the one its machine is sure to have.
          if (record.sessionGeneration > 0)
            expect(generations).to.include(record.sessionGeneration);
        }
      }),
      { numRuns: 300 },
    );
  });
});
