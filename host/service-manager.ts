/**
 * Owns what a service and the manager that started it say to each other: readiness, the watchdog, and sockets that
 * were opened before the start. Sources: sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3).
 *
 * 1. Without a manager nothing is said, and nothing fails; a message that can not be sent is let go.
 * 2. The variables are taken out of the environment: no child of ours is to speak for us.
 */
import type { CancelTimer, Clock } from "./clock.ts";
import { checked, native } from "./native/library.ts";

export interface ServiceManager {
  /** Descriptors of sockets that the manager listens on for us. */
  readonly listenFds: readonly number[];
  ready(status: string): void;
  stopping(): void;
  /** Says that we live, as often as the manager asked for; nothing when it did not. Returns the way to stop. */
  beat(clock: Clock): CancelTimer;
}

type Environment = Record<string, string | undefined>;

const FIRST_LISTEN_FD = 3;
const VARIABLES = [
  "NOTIFY_SOCKET",
  "WATCHDOG_USEC",
  "WATCHDOG_PID",
  "LISTEN_PID",
  "LISTEN_FDS",
  "LISTEN_FDNAMES",
];

/** Takes the manager's variables out of `environment`. */
export function takeServiceManager(environment: Environment, pid = process.pid): ServiceManager {
  const told = Object.fromEntries(VARIABLES.map((name) => [name, environment[name]]));
  for (const name of VARIABLES) delete environment[name];
  const address = told["NOTIFY_SOCKET"] ?? "";
  const notify = (state: string): void => {
    if (address !== "") send(address, state);
  };
  const listens = told["LISTEN_PID"] === String(pid) ? count(told["LISTEN_FDS"]) : 0;
  // Without a pid it is meant for whoever reads it.
  const watched = (told["WATCHDOG_PID"] ?? String(pid)) === String(pid);
  const watchdogMs = watched ? count(told["WATCHDOG_USEC"]) / 1_000 : 0;
  return {
    listenFds: Array.from({ length: listens }, (_, index) => FIRST_LISTEN_FD + index),
    ready: (status) => notify(`READY=1\nSTATUS=${status}`),
    stopping: () => notify("STOPPING=1"),
    beat(clock) {
      if (watchdogMs === 0) return () => {};
      let cancel: CancelTimer = () => {};
      const go = (): void => {
        notify("WATCHDOG=1");
        // Half of what was asked for, as sd_watchdog_enabled(3) advises.
        cancel = clock.after(watchdogMs / 2, go);
      };
      go();
      return () => cancel();
    },
  };
}

function count(text: string | undefined): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

const socket = native("int socket(int domain, int type, int protocol)");
const sendto = native(
  "long sendto(int fd, const void *bytes, size_t length, int flags, const void *address, int addressLength)",
);
const close = native("int close(int fd)");
const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const SOCK_NONBLOCK = 0o4000;
const MSG_NOSIGNAL = 0x4000;
/** `sun_path` of unix(7). */
const PATH_BYTES = 108;

/** Node has no datagram sockets of this family. */
function send(address: string, state: string): void {
  const name = Buffer.from(address, "utf8");
  if (process.platform !== "linux" || name.length > PATH_BYTES) return;
  // An abstract name is written with `@`.
  if (name[0] === 0x40) name[0] = 0;
  const to = Buffer.alloc(2 + name.length + (name[0] === 0 ? 0 : 1));
  to.writeUInt16LE(AF_UNIX);
  name.copy(to, 2);
  const bytes = Buffer.from(state, "utf8");
  try {
    const type = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    const fd = checked("socket", socket(AF_UNIX, type, 0));
    try {
      checked("sendto", sendto(fd, bytes, bytes.length, MSG_NOSIGNAL, to, to.length));
    } finally {
      close(fd);
    }
  } catch {
    // A manager that does not listen misses nothing that would be worth ending for.
  }
}
