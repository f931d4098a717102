/**
 * Measures what running a native process costs beside its floor, in one run: a bare spawn and reap of
 * `/bin/true`, and the sync of a 4 KiB file, two of which a receipt costs. `node bench/process.ts [--json]`.
 */
import { closeSync, constants, fdatasync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pino from "pino";
import { ChildExits } from "../host/child-exits.ts";
import { CgroupContainment } from "../host/containment/cgroup.ts";
import type { Containment } from "../host/containment/containment.ts";
import { SubreaperContainment } from "../host/containment/subreaper.ts";
import { spawnNative } from "../host/native/spawn.ts";
import { SystemSpawner } from "../host/spawner.ts";
import { Report } from "./report.ts";

const RUNS = 1_000;
/** Runs of each kind that take turns, so that the machine's moods reach all alike. */
const TURN = 50;
const TRUE = "/bin/true";
/** Names of the floor's figures. */
export const BARE = "bare spawn and reap";
export const SYNC = "fdatasync of 4 KiB";

type Measured = () => Promise<void>;

/** The floor: call each as often as wanted, then `close`. */
export function floor(): { readonly spawn: Measured; readonly sync: Measured; close(): void } {
  const exits = new ChildExits();
  const directory = openSync("/", constants.O_RDONLY | constants.O_DIRECTORY);
  const path = join(tmpdir(), `lemon-bench-${process.pid}`);
  const file = openSync(path, "w");
  const block = Buffer.alloc(4_096);
  const synced = promisify(fdatasync);
  return {
    async spawn() {
      const child = spawnNative({ executable: TRUE, argv: [TRUE], environment: [], directory });
      for (const end of [child.stdin, child.stdout, child.stderr]) closeSync(end);
      await exits.watch(child.pid);
      exits.reap(child.pid);
    },
    async sync() {
      writeSync(file, block);
      await synced(file);
    },
    close() {
      exits.close();
      closeSync(directory);
      closeSync(file);
      rmSync(path);
    },
  };
}

/** A run with captured output, with nothing kept. */
async function captured(spawner: SystemSpawner, directory: number): Promise<void> {
  const ended = Promise.withResolvers<void>();
  let open = 2;
  const spec = {
    executable: TRUE,
    argv: [TRUE],
    environment: {},
    directory,
    stdin: new Uint8Array(0),
  };
  const run = await spawner.start(spec, {
    chunk() {},
    end() {
      open -= 1;
      if (open === 0) ended.resolve();
    },
  });
  await run.exited;
  await run.clear();
  await ended.promise;
  run.release();
}

async function measure(): Promise<void> {
  const report = new Report("process");
  const { spawn, sync, close } = floor();
  const directory = openSync("/", constants.O_RDONLY | constants.O_DIRECTORY);
  const log = pino({ enabled: false });
  const ways: [string, (exits: ChildExits) => Containment | null][] = [
    ["a cgroup", () => CgroupContainment.create()],
    ["a subreaper", (exits) => new SubreaperContainment(exits)],
  ];
  const measured: [string, Measured, readonly string[]][] = [
    [BARE, spawn, []],
    [SYNC, sync, []],
  ];
  const spawners: SystemSpawner[] = [];
  for (const [way, containment] of ways) {
    try {
      const spawner = new SystemSpawner({
        log,
        containment(exits) {
          const found = containment(exits);
          if (found === null) throw new Error("not on this machine");
          return found;
        },
      });
      spawners.push(spawner);
      measured.push([`captured run in ${way}`, () => captured(spawner, directory), [BARE]]);
    } catch {
      // The report says so by what it lacks.
    }
  }
  for (let done = 0; done < RUNS; done += TURN) {
    for (const [name, once, of] of measured) {
      for (let n = 0; n < TURN; n += 1) {
        const startedMs = performance.now();
        await once();
        report.sample(name, performance.now() - startedMs, { unit: "ms", of });
      }
    }
  }
  for (const spawner of spawners) {
    const name = `captured runs, 16 at a time, in a ${spawner.containment}`;
    for (let round = 0; round < 5; round += 1) {
      const startedMs = performance.now();
      let left = 200;
      const worker = async (): Promise<void> => {
        while (left > 0) {
          left -= 1;
          await captured(spawner, directory);
        }
      };
      await Promise.all(Array.from({ length: 16 }, worker));
      report.sample(name, 200_000 / (performance.now() - startedMs), { unit: "/s" });
    }
  }
  await Promise.all(spawners.map((spawner) => spawner.close()));
  closeSync(directory);
  close();
  report.print();
}

if (import.meta.main) await measure();
