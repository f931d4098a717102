/**
 * Measures files on a joined node through the real chain (`/ws`, controller, hub, leaf, worker, helper), each
 * figure beside its floor in the same run. `node bench/files.ts [--json] [--only=read|write|stat|ninth]`.
 *
 * - Chunks of 1 MiB read, and written, by one client: one at a time, and four at a time. The floor does as
 *   many at a time: a server that reads, makes base64 and sends one WebSocket message.
 * - `node.fs.stat` beside a bare NATS request through a leaf.
 * - A ninth client's `stat` while eight others read chunks, beside the same alone; and what eight readers of
 *   the floor do to a ninth there, since all of them share the cores.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { tempFolder } from "../test/support/temp-folder.ts";
import { CHUNK_BYTES, FILE_CHUNKS, FileClient, READERS, type Target } from "./file-client.ts";
import { bareNats, startFleet, TOKEN } from "./fleet.ts";
import { type FigureKind, percentile, Report } from "./report.ts";

const ROUNDS = 6;
const READS = 48;
const WRITES = 16;
const AT_ONCE = 4;
/** Until the code that is measured is compiled, on every side: a node serves millions of them. */
const WARM_UP_STATS = 2_000;
const STATS = 3_000;
const NINTH_STATS = 200;
const LEAF = "bare NATS request through a leaf, 256 B";

interface Side {
  readonly name: "floor" | "lemon";
  readonly target: Target;
  readonly client: FileClient;
}

const report = new Report("files");
{
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(tempFolder());
  const bytes = Buffer.alloc(FILE_CHUNKS * CHUNK_BYTES);
  for (let at = 0; at < bytes.length; at += 4) bytes.writeUInt32LE((at * 2_654_435_761) >>> 0, at);
  writeFileSync(`${folder.path}/big`, bytes);
  const nats = await bareNats(stack);
  const { url, nodeId } = await startFleet(stack, folder.path);
  const floorUrl = await startFloor(stack, folder.path);
  const side = async (name: Side["name"], target: Target): Promise<Side> => {
    const client = await FileClient.open(target);
    stack.defer(() => client.close());
    return { name, target, client };
  };
  const sides = [
    await side("floor", { url: floorUrl, token: null, nodeId }),
    await side("lemon", { url, token: TOKEN, nodeId }),
  ];
  const only = process.argv.find((word) => word.startsWith("--only="))?.slice("--only=".length);
  const wants = (part: string): boolean => only === undefined || only === part;
  if (wants("read")) await reads(sides);
  if (wants("write")) await writes(sides, bytes);
  if (wants("stat")) await stats(sides, nats.leaf);
  if (wants("ninth")) await ninth(sides);
}
report.print();

async function startFloor(stack: AsyncDisposableStack, folder: string): Promise<string> {
  const child = started("file-floor.ts", folder);
  stack.defer(() => ended(child));
  const [port] = await once(child, "message");
  return `ws://127.0.0.1:${port}`;
}

function started(program: string, argument: string): ChildProcess {
  return fork(new URL(program, import.meta.url), [argument]);
}

async function ended(child: ChildProcess): Promise<void> {
  const gone = once(child, "exit");
  child.disconnect();
  await gone;
}

/** Figures of lemon stand beside those of the floor. */
function sample(figure: string, { name }: Side, value: number, kind: FigureKind): void {
  const floor = `floor: ${figure}`;
  if (name === "floor") report.sample(floor, value, { unit: kind.unit });
  else report.sample(`lemon: ${figure}`, value, { ...kind, of: floor });
}

/** Chunks a second. */
async function rate(count: number, atOnce: number, once: (lane: number) => Promise<unknown>) {
  let left = count;
  const lane = async (_: unknown, at: number): Promise<void> => {
    while (left-- > 0) await once(at);
  };
  const fromMs = performance.now();
  await Promise.all(Array.from({ length: atOnce }, lane));
  return (count * 1_000) / (performance.now() - fromMs);
}

async function reads(sides: readonly Side[]): Promise<void> {
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const atOnce of [1, AT_ONCE]) {
      for (const side of sides) {
        const chunks = await rate(READS, atOnce, () => side.client.read());
        if (round === 0) continue;
        sample(`read, ${atOnce} at a time`, side, chunks, { unit: "MiB/s", atLeast: 0.7 });
      }
    }
  }
}

/** Each lane has a file of its own, since a write asks for the revision that the one before left. */
async function writes(sides: readonly Side[], bytes: Buffer): Promise<void> {
  const data = bytes.toString("base64", 0, CHUNK_BYTES);
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const atOnce of [1, AT_ONCE]) {
      for (const side of sides) {
        const revisions = Array.from({ length: atOnce }, () => 0);
        const chunks = Array.from({ length: atOnce }, () => 0);
        const written = await rate(WRITES, atOnce, async (lane) => {
          const path = `${side.name}-${atOnce}-${round}-${lane}`;
          const offset = (chunks[lane] ?? 0) * CHUNK_BYTES;
          chunks[lane] = (chunks[lane] ?? 0) + 1;
          const revision = revisions[lane] ?? 0;
          revisions[lane] = await side.client.write(path, offset, data, revision);
        });
        if (round === 0) continue;
        sample(`write and sync, ${atOnce} at a time`, side, written, { unit: "MiB/s" });
      }
    }
  }
}

async function stats(sides: readonly Side[], leaf: () => Promise<unknown>): Promise<void> {
  for (let at = -WARM_UP_STATS; at < STATS; at += 1) {
    const fromMs = performance.now();
    await leaf();
    const leafMs = performance.now() - fromMs;
    if (at >= 0) report.sample(LEAF, leafMs, { unit: "ms" });
    for (const side of sides) {
      const ms = await side.client.stat();
      if (at < 0 || side.name === "floor") continue;
      report.sample("lemon: stat", ms, { unit: "ms", of: LEAF, atMost: 3 });
    }
  }
}

async function ninth(sides: readonly Side[]): Promise<void> {
  for (let round = 0; round <= ROUNDS / 2; round += 1) {
    for (const side of sides) {
      const alone = await statTimes(side.client);
      const readers = started("file-client.ts", JSON.stringify(side.target));
      await once(readers, "message");
      const fromMs = performance.now();
      const beside = await statTimes(side.client);
      readers.send("chunks");
      const [chunks] = await once(readers, "message");
      const rate = (chunks * 1_000) / (performance.now() - fromMs);
      await ended(readers);
      if (round === 0) continue;
      const where = `beside ${READERS} readers`;
      report.sample(`${side.name}: ${READERS} readers together`, rate, { unit: "MiB/s" });
      for (const [p, share] of [
        ["p50", 0.5],
        ["p99", 0.99],
      ] as const) {
        const quiet = `${side.name}: ninth's stat alone, ${p}`;
        report.sample(quiet, percentile(alone, share), { unit: "ms" });
        report.sample(`${side.name}: ninth's stat ${where}, ${p}`, percentile(beside, share), {
          unit: "ms",
          of: quiet,
        });
      }
    }
  }
}

async function statTimes(client: FileClient): Promise<number[]> {
  const times: number[] = [];
  for (let at = 0; at < NINTH_STATS; at += 1) times.push(await client.stat());
  return times;
}
