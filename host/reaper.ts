/**
 * Owns the reaper: a tiny process of its own that ends the worker's runs when the worker itself is
 * killed. It reads a pipe whose other end only the worker holds; end of file is the worker's death.
 *
 * 1. It lives in a session of its own, so that neither a terminal's Ctrl-C nor a signal to the worker's
 *    group reaches it, and the signals that ask politely are blocked from its first instruction on.
 * 2. It ends the folder of all cgroups; or, without cgroups, each group whose leader's start time is
 *    still the one it was told, and then, round by round, all that carries one of the worker's marks, until
 *    none was found twice: what is just becoming another program shows no environment.
 * 3. What it must know it knows before a run starts (cgroup, marks); groups are told right after. One that
 *    is started again knows from its first instruction on what runs.
 *
 * It is the system's own shell: there on every machine, and some hundred kilobytes of private memory,
 * where a Node process takes 40 MB. One that dies is started again.
 */
import { closeSync, constants as files, openSync } from "node:fs";
import { Socket } from "node:net";
import { constants } from "node:os";
import type { ChildExits } from "./child-exits.ts";
import type { Containment } from "./containment/containment.ts";
import { spawnNative } from "./native/spawn.ts";
import { readProcessRow } from "./process-table.ts";

/**
 * Arguments: the folder of the cgroups or "", the mark in the environment or "", the digits in the limit
 * or "", then a line for each run that is there already. Input: a line `<slot> <pid> <start>` for each run that starts, `<slot>` when it is over; `start`
 * is field 22 of `/proc/<pid>/stat`, or `-` where the reaper is to find out by itself (macOS).
 */
const SCRIPT = `
exec >/dev/null 2>&1
set -f
cgroup=$1 mark=$2 limit=$3 last=-1
shift 3

started() {
  if [ -r "/proc/$1/stat" ]; then
    read -r line <"/proc/$1/stat" || return
    set -- \${line##*) }
    echo "\${20}"
  else
    ps -o lstart= -p "$1"
  fi
}

note() {
  start=$3
  [ "$start" = - ] && start=$(started "$2")
  eval "pid_$1=\\$2 start_$1=\\$start"
  [ "$1" -gt "$last" ] && last=$1
}

for run; do note $run; done
while read -r run; do note $run; done

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

rounds=0 quiet=0
while [ -n "$mark" ] && [ $quiet -lt 2 ] && [ $rounds -lt 1000 ]; do
  set +f
  found=$(
    grep -lsF -e "$mark" /proc/[0-9]*/environ
    [ -n "$limit" ] && grep -lsE -e "^Max file locks +$limit[0-9]{6} " /proc/[0-9]*/limits
  )
  set -f
  if [ -n "$found" ]; then
    quiet=0
    for file in $found; do
      pid=\${file#/proc/}
      kill -s KILL "\${pid%/*}"
    done
  else
    quiet=$((quiet + 1))
    [ $quiet -lt 2 ] && sleep 0.1
  fi
  rounds=$((rounds + 1))
done
`;

/** Unread lines beyond this mean that the reaper does not read any more. */
const STUCK_BYTES = 65_536;
/** One that ends sooner than this, twice in a row, is not replaced at once. */
const SETTLED_MS = 1_000;
const BLOCKED = (
  ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGPIPE", "SIGUSR1", "SIGUSR2"] as const
).map((name) => constants.signals[name]);

export class Reaper {
  readonly #exits: ChildExits;
  readonly #containment: Containment;
  readonly #onLoss: () => void;
  /** Lines that a new one has to be told, by slot. */
  readonly #runs = new Map<number, string>();
  #pipe: Socket | undefined;
  #pid = 0;
  #restart: NodeJS.Timeout | undefined;
  /** In a row. */
  #shortLives = 0;
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
    const line = `${slot} ${pid} ${startOf(pid)}`;
    this.#runs.set(slot, line);
    this.#tell(line);
    return () => {
      this.#runs.delete(slot);
      this.#tell(`${slot}`);
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
    this.#pipe.write(`${line}\n`);
    // Not through its pipe: an end of file is what it kills the runs for.
    if (this.#pipe.writableLength > STUCK_BYTES) process.kill(this.#pid, "SIGKILL");
  }

  #start(): void {
    const startedMs = performance.now();
    const root = openSync("/", files.O_RDONLY | files.O_DIRECTORY);
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
          this.#containment.limit ?? "",
          ...this.#runs.values(),
        ],
        environment: ["PATH=/usr/bin:/bin", "LC_ALL=C"],
        directory: root,
        blockedSignals: BLOCKED,
      });
      closeSync(child.stdout);
      closeSync(child.stderr);
      this.#pid = child.pid;
      this.#pipe = this.#openPipe(child.stdin);
      void this.#exits.watch(child.pid, { keepAlive: false }).then(() => this.#lost(startedMs));
    } finally {
      closeSync(root);
    }
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
    const wasShort = performance.now() - startedMs < SETTLED_MS;
    this.#shortLives = wasShort ? this.#shortLives + 1 : 0;
    this.#startAgain(this.#shortLives > 1 ? SETTLED_MS : 0);
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

function startOf(pid: number): string {
  try {
    return String(readProcessRow(pid)?.startTicks ?? "-");
  } catch {
    // No descriptor is left to read it through.
    return "-";
  }
}
