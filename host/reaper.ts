/**
 * Owns the reaper: a tiny process of its own that ends the worker's runs when the worker itself is
 * killed. It reads a pipe whose other end only the worker holds; end of file is the worker's death.
 *
 * 1. It lives in a session of its own, so that neither a terminal's Ctrl-C nor a signal to the worker's
 *    group reaches it, and ignores the signals that ask politely.
 * 2. It ends the folder of all cgroups; or, without cgroups, each group whose leader's start time is
 *    still the one it was told, and then, round by round, all that carries the worker's mark.
 * 3. What it must know it knows before a run starts (cgroup, mark); groups are told right after.
 *
 * It is the system's own shell: there on every machine, and some hundred kilobytes of private memory,
 * where a Node process takes 40 MB. One that dies is started again.
 */
import { closeSync, constants, openSync } from "node:fs";
import { Socket } from "node:net";
import type { ChildExits } from "./child-exits.ts";
import type { Containment } from "./containment/containment.ts";
import { spawnNative } from "./native/spawn.ts";
import { readProcessRow } from "./process-table.ts";

/**
 * Arguments: the folder of the cgroups or "", the mark or "". Lines of input: `<slot> <pid> <start>` for
 * a run that started, `<slot>` for one that is over; `start` is field 22 of `/proc/<pid>/stat`, or `-`
 * where the reaper finds out by itself (macOS).
 */
const SCRIPT = `
exec >/dev/null 2>&1
set -f
trap '' HUP INT QUIT TERM PIPE USR1 USR2
cgroup=$1 mark=$2 last=-1

started() {
  if [ -r "/proc/$1/stat" ]; then
    read -r line <"/proc/$1/stat" || return
    set -- \${line##*) }
    echo "\${20}"
  else
    ps -o lstart= -p "$1"
  fi
}

while read -r slot pid start; do
  [ "$start" = - ] && start=$(started "$pid")
  eval "pid_$slot=\\$pid start_$slot=\\$start"
  [ "$slot" -gt "$last" ] && last=$slot
done

if [ -n "$cgroup" ]; then
  echo 1 >"$cgroup/cgroup.kill"
  tries=0
  while [ -d "$cgroup" ] && [ $tries -lt 50 ]; do
    find "$cgroup" -depth -type d -exec rmdir {} \\;
    tries=$((tries + 1))
    [ -d "$cgroup" ] && sleep 0.1
  done
fi

slot=0
while [ $slot -le $last ]; do
  eval "pid=\\$pid_$slot start=\\$start_$slot"
  [ -n "$pid" ] && [ "$(started "$pid")" = "$start" ] && kill -s KILL -- "-$pid"
  slot=$((slot + 1))
done

rounds=0
while [ -n "$mark" ] && [ $rounds -lt 1000 ]; do
  set +f
  found=$(grep -lsF -e "$mark" /proc/[0-9]*/environ)
  set -f
  [ -n "$found" ] || break
  for file in $found; do
    pid=\${file#/proc/}
    kill -s KILL "\${pid%/environ}"
  done
  rounds=$((rounds + 1))
done
`;

/** Unread lines beyond this mean that the reaper does not read any more. */
const STUCK_BYTES = 65_536;
/** One that ends sooner than this is not replaced at once. */
const SETTLED_MS = 1_000;

export class Reaper {
  readonly #exits: ChildExits;
  readonly #containment: Containment;
  readonly #onLoss: () => void;
  /** Lines that a new one has to be told, by slot. */
  readonly #runs = new Map<number, string>();
  #pipe: Socket | undefined;
  #pid = 0;
  #restart: NodeJS.Timeout | undefined;
  #closed = false;

  /** Starts it. `onLoss` is called whenever it ended unasked; it is started again by itself. Throws what `spawnNative` throws. */
  constructor(exits: ChildExits, containment: Containment, onLoss: () => void) {
    this.#exits = exits;
    this.#containment = containment;
    this.#onLoss = onLoss;
    this.#start();
  }

  /** The process it is now. */
  get pid(): number {
    return this.#pid;
  }

  /** Tells of a run that leads the group `pid`; returns what to tell when it is over (before it is reaped). */
  watch(pid: number): () => void {
    if (this.#containment.cgroup !== null) return () => {};
    const slot = this.#freeSlot();
    const line = `${slot} ${pid} ${readProcessRow(pid)?.startTicks ?? "-"}\n`;
    this.#runs.set(slot, line);
    this.#tell(line);
    return () => {
      this.#runs.delete(slot);
      this.#tell(`${slot}\n`);
    };
  }

  /** Ends it in order, with no run left. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#restart);
    this.#pipe?.end();
  }

  #freeSlot(): number {
    let slot = 0;
    while (this.#runs.has(slot)) slot += 1;
    return slot;
  }

  #tell(line: string): void {
    if (this.#pipe === undefined) return;
    this.#pipe.write(line);
    if (this.#pipe.writableLength > STUCK_BYTES) this.#pipe.destroy();
  }

  #start(): void {
    const startedMs = performance.now();
    const root = openSync("/", constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      const child = spawnNative({
        executable: "/bin/sh",
        argv: [
          "sh",
          "-c",
          SCRIPT,
          "lemon-reaper",
          this.#containment.cgroup ?? "",
          this.#containment.mark ?? "",
        ],
        environment: ["PATH=/usr/bin:/bin", "LC_ALL=C"],
        directory: root,
      });
      closeSync(child.stdout);
      closeSync(child.stderr);
      this.#pid = child.pid;
      this.#pipe = this.#openPipe(child.stdin);
      void this.#exits.watch(child.pid, { keepAlive: false }).then(() => this.#lost(startedMs));
    } finally {
      closeSync(root);
    }
    for (const line of this.#runs.values()) this.#tell(line);
  }

  #openPipe(fd: number): Socket {
    const pipe = new Socket({ fd, readable: false, writable: true });
    // Its end is told by its exit.
    pipe.on("error", () => {});
    pipe.unref();
    return pipe;
  }

  #lost(startedMs: number): void {
    this.#exits.reap(this.#pid);
    this.#pipe?.destroy();
    this.#pipe = undefined;
    if (this.#closed) return;
    this.#onLoss();
    const livedMs = performance.now() - startedMs;
    this.#startAgain(livedMs < SETTLED_MS ? SETTLED_MS : 0);
  }

  #startAgain(delayMs: number): void {
    this.#restart = setTimeout(() => {
      try {
        this.#start();
      } catch {
        this.#onLoss();
        this.#startAgain(SETTLED_MS);
      }
    }, delayMs);
    this.#restart.unref();
  }
}
