/**
 * Owns a worker that a test may kill: a process of its own with a real spawner. Prints a JSON line
 * `{reaper, pids}` once its runs have said their pids, and then waits for the end.
 */
import { MODES, type Mode, shell, spawnerOf, start } from "./native-run.ts";

const [mode = "", ...scripts] = process.argv.slice(2);
const chosen: Mode | undefined = MODES.find((known) => known === mode);
if (chosen === undefined) throw new Error("unknown mode");
const spawner = spawnerOf(chosen);
const pids: number[] = [];
for (const script of scripts) {
  const heard = await start(spawner, { argv: shell(script) });
  pids.push(heard.process.pid, ...(await heard.firstLine).split(" ").map(Number));
}
console.log(JSON.stringify({ reaper: spawner.reaperPid, pids }));
