/**
 * Proves what must hold of the fleet under any interleaving: many machines and operators at once, with
 * every write to the store and every word to the hub taking effect in an order that chance chooses.
 */
import { expect } from "chai";
import fc from "fast-check";
import { sha256 } from "../../../actors/node/secrets.ts";
import { LemonError } from "../../../protocol/errors.ts";
import type { NodeKey } from "../../../protocol/ids.ts";
import type { ResultOf } from "../../../protocol/methods.ts";
import type { WriteFault } from "../../support/memory-documents.ts";
import { MemoryLink } from "../../support/memory-link.ts";
import { NodesRoom, opening, operator, type TestCaller } from "../../support/nodes-room.ts";
import { codeOfRejection } from "../../support/supervision.ts";

/** Enough to find a broken rule nearly always; many more with `LEMON_INTERLEAVINGS`. */
const RUNS = Number(process.env["LEMON_INTERLEAVINGS"] ?? 60);

const NAMES = ["a", "b", "c"] as const;

/** What may be refused; anything else is a fault of ours. */
const REFUSALS = new Set([
  "node_name_in_use",
  "node_not_found",
  "node_revoked",
  "node_superseded",
  "unauthorized",
  "forbidden",
  "unavailable",
  "timeout",
  "pairing_not_pending",
]);

type Step =
  | { readonly do: "join"; readonly name: string; readonly opens: number }
  | { readonly do: "restart-worker" | "renew" | "reconnect"; readonly machine: number }
  | { readonly do: "rename"; readonly machine: number; readonly name: string }
  | { readonly do: "recover"; readonly machine: number; readonly repair: boolean }
  | { readonly do: "revoke" | "remove"; readonly machine: number }
  | { readonly do: "hub"; readonly away: boolean }
  | { readonly do: "store"; readonly fault: WriteFault }
  | { readonly do: "late writes land" };

const machine = fc.nat({ max: 5 });
const name = fc.constantFrom(...NAMES);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("join" as const), name, opens: fc.nat({ max: 2 }) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom("restart-worker" as const, "renew" as const, "reconnect" as const),
      machine,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("rename" as const), machine, name }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("recover" as const), machine, repair: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom("revoke" as const, "remove" as const), machine }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("hub" as const), away: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ do: "late writes land" as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("store" as const),
      fault: fc.oneof(
        fc.constant({ kind: "refused" as const }),
        fc.record({ kind: fc.constant("lost" as const), applied: fc.boolean() }),
      ),
    }),
  },
);

type Opened = ResultOf<"node.link.open">;

/** One machine: what it keeps on its disk, and the worker that runs on it. */
interface Machine {
  readonly nodeId: string;
  recoveryToken: string;
  /** Newest first: it may not know which of them was answered. */
  tokens: string[];
  session: TestCaller | null;
  life: ReturnType<typeof opening>;
  readonly answers: { readonly linkKey: string; readonly opened: Opened }[];
}

class World {
  readonly room: NodesRoom;
  readonly machines: Machine[] = [];
  /** Every link key that was answered, in the order of the answers, by node. */
  readonly generations = new Map<string, Map<string, number>>();

  constructor(room: NodesRoom) {
    this.room = room;
  }

  async run(step: Step): Promise<void> {
    try {
      await this.#step(step);
    } catch (error) {
      if (!(error instanceof LemonError) || !REFUSALS.has(error.code)) throw error;
    }
    await this.checkNames();
  }

  async #step(step: Step): Promise<void> {
    const { methods } = this.room.nodes;
    if (step.do === "join") return await this.#join(step.name, step.opens);
    if (step.do === "store") {
      this.room.documents.writeFaults.push(step.fault);
      return;
    }
    if (step.do === "late writes land") {
      this.room.documents.landGhosts();
      return;
    }
    if (step.do === "hub") {
      this.room.link.hubIsAway = step.away;
      return;
    }
    const chosen = this.machines[step.machine % Math.max(1, this.machines.length)];
    if (chosen === undefined) return;
    const { nodeId } = chosen;
    switch (step.do) {
      case "restart-worker":
        chosen.life = opening();
        await this.#connect(chosen);
        return await this.#open(chosen);
      case "renew":
        return await this.#open(chosen);
      case "reconnect":
        return await this.#connect(chosen);
      case "rename":
        await methods["node.rename"]({ nodeId, name: step.name }, operator());
        return;
      case "recover":
        return await this.#recover(chosen, step.repair);
      case "revoke":
        await methods["node.revoke"]({ nodeId }, operator());
        return;
      case "remove":
        await methods["node.remove"]({ nodeId }, operator());
        return;
    }
  }

  async #join(nodeName: string, opens: number): Promise<void> {
    const paired = await this.room.pair(nodeName);
    const { nodeId, recoveryToken } = paired;
    const joined: Machine = {
      nodeId,
      recoveryToken,
      tokens: [],
      session: null,
      life: opening(),
      answers: [],
    };
    joined.tokens.unshift((await this.room.redeem(paired.challenge)).token);
    this.machines.push(joined);
    await this.#connect(joined);
    for (let count = 0; count < opens; count += 1) await this.#open(joined);
  }

  async #recover(machine: Machine, repair: boolean): Promise<void> {
    const { nodeId, recoveryToken } = machine;
    const proof = repair ? { repair } : { recoveryToken };
    const paired = await this.room.pair("z", { nodeId, ...proof });
    if (paired.recoveryToken !== "") machine.recoveryToken = paired.recoveryToken;
    machine.tokens.unshift((await this.room.redeem(paired.challenge)).token);
    await this.#connect(machine);
  }

  async #connect(machine: Machine): Promise<void> {
    const [token] = machine.tokens;
    if (token !== undefined) machine.session = await this.room.connect(token);
  }

  async #open(machine: Machine): Promise<void> {
    const { session, life, nodeId } = machine;
    if (session === null) return;
    const opened = await this.room.nodes.methods["node.link.open"](life, session);
    machine.tokens.unshift(opened.sessionToken);
    machine.answers.push({ linkKey: life.linkKey, opened });
    expect(opened.nodeId).to.equal(nodeId);
    const known = this.generations.get(nodeId) ?? new Map<string, number>();
    this.generations.set(nodeId, known);
    // One life, one generation; one generation, one life.
    expect(known.get(life.linkKey) ?? opened.generation).to.equal(opened.generation);
    known.set(life.linkKey, opened.generation);
    expect(new Set(known.values()).size).to.equal(known.size);
  }

  async checkNames(): Promise<void> {
    const { nodes } = await this.room.nodes.methods["node.list"]({}, operator());
    const names = nodes.map((node) => node.name);
    expect(names).to.deep.equal([...new Set(names)].sort());
    const ids = nodes.map((node) => node.nodeId);
    expect(new Set(ids).size).to.equal(ids.length);
  }

  /** When everything has come to rest. */
  async checkRest(): Promise<void> {
    const { room } = this;
    for (const { key, value } of await room.documents.list()) {
      const { life, generation, nodeKey } = value;
      expect(key).to.equal(value.nodeId);
      // The directory shows what is stored.
      const shown = await room.nodes.methods["node.describe"]({ nodeId: key }, operator());
      expect([shown.name, shown.metadata.generation ?? 0]).to.deep.equal([value.name, generation]);
      // Nobody but the current life holds credentials.
      const holders = nodeKey === null ? new Set() : room.link.holders(nodeKey);
      expect(holders.size).to.be.at.most(1);
      if (holders.size === 1) expect(holders.has(life?.linkKey ?? "")).to.equal(true);
    }
    for (const machine of this.machines) await this.#checkMachine(machine);
  }

  async #checkMachine({ nodeId, answers, session, tokens }: Machine): Promise<void> {
    const { room } = this;
    const stored = async () => (await room.documents.get(nodeId))?.value ?? null;
    const current = (await stored())?.life?.linkKey;
    // A life that is not current any more learns it when it asks, whoever it asks through.
    for (const { linkKey } of answers) {
      if (session === null || current === linkKey) continue;
      const code = await codeOfRejection(this.#shows(linkKey, session));
      expect(["node_superseded", "node_revoked", "node_not_found"]).to.include(code);
    }
    // Those tokens are good that are not older than the newest one that was used.
    for (const token of tokens.toReversed()) {
      const record = await stored();
      const row = record?.sessions.find(({ hash }) => hash === sha256(token));
      const good =
        record !== null &&
        row !== undefined &&
        !record.revoked &&
        row.generation >= record.sessionGeneration;
      const code = await codeOfRejection(room.connect(token));
      if (good) expect(code).to.equal("answered");
      else expect(["node_superseded", "node_revoked", "unauthorized"]).to.include(code);
    }
  }

  async #shows(linkKey: string, session: TestCaller): Promise<void> {
    await this.room.nodes.methods["node.link.open"](opening({ linkKey }), session);
  }
}

describe("the fleet under any interleaving", () => {
  it("keeps names unique, generations rising, one life at most, and older tokens out", async function () {
    this.timeout(RUNS * 1_000);
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(fc.array(step, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 5 }),
        async (scheduler, programs) => {
          const link = new ScheduledLink(scheduler);
          const room = await NodesRoom.open(undefined, link);
          room.documents.beforeWrite = (key) => scheduler.schedule(Promise.resolve(), key);
          const world = new World(room);
          const clients = programs.map(async (program) => {
            for (const one of program) await world.run(one);
          });
          await scheduler.waitFor(Promise.all(clients));
          room.documents.beforeWrite = () => Promise.resolve();
          room.documents.writeFaults.length = 0;
          // What nobody was answered is settled; what was on its way all the time comes too late.
          await room.clock.advance(1_000);
          room.documents.landGhosts();
          link.hubIsAway = false;
          link.scheduler = null;
          const rest = await scheduler.waitFor(room.restart());
          const rested = new World(rest);
          rested.machines.push(...world.machines);
          await rest.clock.advance(0);
          await rested.checkNames();
          await rested.checkRest();
          await rest.close();
        },
      ),
      { numRuns: RUNS },
    );
  });
});

/** A hub that hears each word when chance says, and signs for nobody beside the life that holds credentials. */
class ScheduledLink extends MemoryLink {
  scheduler: fc.Scheduler | null;

  constructor(scheduler: fc.Scheduler) {
    super();
    this.scheduler = scheduler;
  }

  override async issue(
    ...[account, linkKey, options]: Parameters<MemoryLink["issue"]>
  ): Promise<string> {
    await this.#turn("issue");
    const jwt = await super.issue(account, linkKey, options);
    expect(this.holders(account)).to.deep.equal(new Set([linkKey]));
    return jwt;
  }

  override async revoke(account: NodeKey, linkKeys: readonly string[]): Promise<void> {
    await this.#turn("revoke");
    await super.revoke(account, linkKeys);
  }

  override async provision(kind?: string): Promise<NodeKey> {
    await this.#turn("provision");
    return await super.provision(kind);
  }

  override async remove(account: NodeKey): Promise<void> {
    await this.#turn("remove");
    await super.remove(account);
  }

  async #turn(what: string): Promise<void> {
    await this.scheduler?.schedule(Promise.resolve(), what);
  }
}
