/** Owns a process for tests that has an isolated one, and says its pid: what becomes of that when this is killed? */
import { systemClock } from "../../host/clock.ts";
import { isolatedProcess } from "../../supervision/isolated-process.ts";
import { createActorSystem } from "../../supervision/system.ts";
import { logLines } from "./log-lines.ts";

const system = createActorSystem({ name: "parent", log: logLines().log, clock: systemClock });
const actor = await system.root.startActor(
  isolatedProcess({
    id: "isolated",
    kind: "isolated",
    entry: new URL("./isolated-program.ts", import.meta.url),
    opening: null,
    deadlineMs: 60_000,
    onReady: () => {},
  }),
);
const pid = await actor.ask("call", "pid", { deadlineMs: 60_000 });
if (process.argv[2] === "hanging") void actor.ask("call", "hang", { deadlineMs: 60_000 });
process.stdout.write(`${pid}\n`);
