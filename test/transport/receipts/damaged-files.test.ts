import {
  cpSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { createUser } from "@nats-io/nkeys";
import { expect } from "chai";
import fc from "fast-check";
import { LemonError } from "../../../protocol/errors.ts";
import type { Receipt } from "../../../transport/receipts/receipt.ts";
import { startNodeServer } from "../../support/nats.ts";
import { bench, done, running, type WorkState } from "../../support/receipts.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const intent = Buffer.from("do it");
const storeUser = createUser();
const sysUser = createUser();

const STREAM = "nats/store/jetstream/STORE/streams/KV_work";

/** Files that a fault may hit: the server's stream, and the store's own. */
function filesOf(folder: string): string[] {
  return [STREAM, "receipts/work"]
    .flatMap((part) => {
      const entries = readdirSync(join(folder, part), { recursive: true, withFileTypes: true });
      return entries
        .filter((entry) => entry.isFile())
        .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
    })
    .sort();
}

/** Where the same file stands in another store, and in an earlier copy of this one. */
interface Copies {
  readonly other: string;
  readonly older: string;
}

type Fault = (path: string, at: number, copies: Copies) => void;

const FAULTS: Readonly<Record<string, Fault>> = {
  "flip a bit of it"(path, at) {
    const bytes = readFileSync(path);
    if (bytes.length === 0) return;
    const bit = at % (bytes.length * 8);
    bytes.writeUInt8(bytes.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
    writeFileSync(path, bytes);
  },
  "blank a part of it"(path, at) {
    const bytes = readFileSync(path);
    const start = at % (bytes.length + 1);
    bytes.subarray(start, start + 512).fill(0);
    writeFileSync(path, bytes);
  },
  "cut it": (path, at) => truncateSync(path, at % (statSync(path).size + 1)),
  "empty it": (path) => truncateSync(path),
  "remove it": (path) => rmSync(path),
  "put another store's in its place": (path, _, { other }) => cpSync(other, path),
  "put an older one in its place": (path, _, { older }) => cpSync(older, path),
};

/**
 * Two stores are made once: ours, an older copy of it, and another one. Each round harms one file of a
 * fresh copy of ours while nothing runs, starts everything and asks for every id.
 */
describe("a receipt store whose files are harmed under it", () => {
  let folder: TempFolder;
  const acknowledged = new Map<string, Receipt<WorkState>>();

  before(async () => {
    folder = tempFolder();
    const ours = join(folder.path, "ours");
    await useStore(ours, "first", 40, acknowledged);
    cpSync(ours, join(folder.path, "older"), { recursive: true });
    await useStore(ours, "second", 8, acknowledged);
    await useStore(join(folder.path, "other"), "first", 20, new Map());
  });
  after(() => folder[Symbol.dispose]());

  /** Admits ids and brings half of them further, then ends everything. */
  async function useStore(
    at: string,
    prefix: string,
    ids: number,
    seen: Map<string, Receipt<WorkState>>,
  ): Promise<void> {
    const server = await startNodeServer({ directory: join(at, "nats"), storeUser, sysUser });
    await using ground = await bench(server, join(at, "receipts"));
    const store = await ground.open();
    for (let n = 0; n < ids; n += 1) {
      let { receipt } = await store.admit(`${prefix}:${n}`, intent, running);
      if (n % 2 === 0) receipt = await store.advance(receipt, done);
      seen.set(receipt.id, receipt);
    }
    const burst = Array.from({ length: 4 }, async (_, n) => {
      const { receipt } = await store.admit(`${prefix}:burst:${n}`, intent, running);
      seen.set(receipt.id, receipt);
    });
    await Promise.all(burst);
    // As a process leaves it that is killed now: some of what it acknowledged is announced only.
    const witness = join(at, "receipts/work/witness");
    const killed = readFileSync(witness);
    await store.close();
    writeFileSync(witness, killed);
    await server.stop();
  }

  /** What became of the ids, `refused` for those that could not be asked for. */
  async function outcomes(at: string): Promise<Record<string, number>> {
    const tally: Record<string, number> = {};
    const count = (name: string): void => {
      tally[name] = (tally[name] ?? 0) + 1;
    };
    const server = await startNodeServer({ directory: join(at, "nats"), storeUser, sysUser });
    await using ground = await bench(server, join(at, "receipts"));
    const open = ground.open({ generation: 2, timeouts: { readMs: 500, putMs: 500 } });
    const store = await open.catch((failure: unknown) => {
      // Whatever else it would be, it would not be an honest answer.
      if (!(failure instanceof LemonError)) throw failure;
      expect(failure.code).to.be.oneOf(["receipt_store_damaged", "receipt_store_unavailable"]);
      count(failure.code);
      return null;
    });
    if (store === null) return tally;
    for (const [id, receipt] of acknowledged) {
      const read = await store.read(id).catch(refused);
      expect(read, `${id} reads as absent`).not.to.equal(null);
      const admission = await store.admit(id, intent, running).catch(refused);
      if (admission !== "refused") expect(admission.outcome, id).to.equal("existing");
      if (read === "refused" || read === null) {
        count("refused");
      } else {
        // Known, or honestly unknown; never an earlier state.
        const honest = receipt.state.phase === "done" ? ["done", "lost"] : ["unknown", "lost"];
        expect(read.state.phase, id).to.be.oneOf(honest);
        count(read.state.phase);
      }
    }
    const fresh = await store.admit("fresh", intent, running).catch(refused);
    if (fresh !== "refused") expect(fresh.outcome).to.equal("admitted");
    return tally;
  }

  function refused(failure: unknown): "refused" {
    if (failure instanceof LemonError) return "refused";
    throw failure;
  }

  async function afterFault(
    file: string,
    fault: string,
    at: number,
  ): Promise<Record<string, number>> {
    const copy = join(folder.path, "copy");
    cpSync(join(folder.path, "ours"), copy, { recursive: true });
    try {
      const copies = {
        other: join(folder.path, "other", file),
        older: join(folder.path, "older", file),
      };
      FAULTS[fault]?.(join(copy, file), at, copies);
      return await outcomes(copy);
    } finally {
      rmSync(copy, { recursive: true });
    }
  }

  it("forgets nothing that it acknowledged, and says honestly what it no longer knows", async () => {
    const files = filesOf(join(folder.path, "ours"));
    const shared = files.filter((file) => filesOf(join(folder.path, "other")).includes(file));
    const seen: Record<string, number> = {};
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...shared),
        fc.constantFrom(...Object.keys(FAULTS)),
        fc.nat(),
        async (file, fault, at) => {
          const tally = await afterFault(file, fault, at);
          for (const [outcome, times] of Object.entries(tally)) {
            seen[outcome] = (seen[outcome] ?? 0) + times;
          }
        },
      ),
      // Among them always one that must be refused, and one that the server makes up for.
      {
        numRuns: 12,
        endOnFailure: true,
        examples: [
          ["receipts/work/identity.json", "remove it", 0],
          [`${STREAM}/msgs/index.db`, "remove it", 0],
        ],
      },
    );
    // The faults were real: some stores were refused, and most receipts were still known.
    expect(seen["receipt_store_damaged"]).to.be.greaterThan(0);
    expect(seen["done"]).to.be.greaterThan(0);
  });
});
