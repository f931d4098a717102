/**
 * Owns the birth of a native process: `posix_spawn` through koffi (posix_spawn(3)), with what Node's
 * own `spawn` can not give.
 *
 * 1. The child leads a session and a group of its own; no signal is ignored in it, and none blocked but
 *    those asked for.
 * 2. Its standard streams are real pipes (Node's are socket pairs, which `/dev/stdin` can not open).
 * 3. It starts in the directory of the descriptor given, whatever that is called now.
 * 4. It inherits no other descriptor, also none that this process itself was started with.
 * 5. A failure leaves neither a process nor a descriptor behind that was not there before.
 *
 * The call returns when the child has executed its program or failed to, so a failed exec is known here
 * and never looks like an exit. macOS: the same calls under its flags, not tried here.
 */
import { closeSync } from "node:fs";
import { checked, checkedErrno, hasNative, native } from "./library.ts";

export interface NativeSpawn {
  /** Absolute path of the program. */
  readonly executable: string;
  readonly argv: readonly string[];
  /** `NAME=value` each. */
  readonly environment: readonly string[];
  /** Descriptor of the directory to start in. */
  readonly directory: number;
  /** Descriptor of the cgroup (v2) to be born in. Only where `canSpawnIntoCgroup`. */
  readonly cgroup?: number;
  /** Numbers of signals that are blocked from its first instruction on. Default none. */
  readonly blockedSignals?: readonly number[];
}

/** Descriptors of pipes' ends, close-on-exec. */
export interface StandardStreams {
  readonly stdin: number;
  readonly stdout: number;
  readonly stderr: number;
}

export interface StandardPipes {
  /** What the process is to have. */
  readonly child: StandardStreams;
  readonly parent: StandardStreams;
}

/** The parent's ends are this process's to close. */
export interface NativeChild extends StandardStreams {
  readonly pid: number;
}

const onDarwin = process.platform === "darwin";

const SETSIGDEF = 0x04;
const SETSIGMASK = 0x08;
const SETSID = onDarwin ? 0x0400 : 0x80;
const SETCGROUP = 0x100;
/** macOS: every descriptor that no action names is closed in the child. */
const CLOEXEC_DEFAULT = onDarwin ? 0x4000 : 0;

const O_CLOEXEC = onDarwin ? 0x1000000 : 0o2000000;

/** More than any C library's `posix_spawnattr_t`, `posix_spawn_file_actions_t` (336 and 80 in glibc) or `sigset_t`. */
const OPAQUE_BYTES = 512;

const SET_CGROUP = "int posix_spawnattr_setcgroup_np(void *attributes, int cgroup)";
const CLOSE_FROM = "int posix_spawn_file_actions_addclosefrom_np(void *actions, int from)";

const posixSpawn = native(
  "int posix_spawn(void *pid, const char *path, void *actions, void *attributes, const char **argv, const char **envp)",
);
const actionsInit = native("int posix_spawn_file_actions_init(void *actions)");
const actionsDestroy = native("int posix_spawn_file_actions_destroy(void *actions)");
const addDup2 = native("int posix_spawn_file_actions_adddup2(void *actions, int fd, int as)");
const addFchdir = native("int posix_spawn_file_actions_addfchdir_np(void *actions, int directory)");
const addCloseFrom = native(CLOSE_FROM);
const attributesInit = native("int posix_spawnattr_init(void *attributes)");
const attributesDestroy = native("int posix_spawnattr_destroy(void *attributes)");
const setFlags = native("int posix_spawnattr_setflags(void *attributes, short flags)");
const setSignalDefaults = native("int posix_spawnattr_setsigdefault(void *attributes, void *set)");
const setSignalMask = native("int posix_spawnattr_setsigmask(void *attributes, void *set)");
const setCgroup = native(SET_CGROUP);
const sigfillset = native("int sigfillset(void *set)");
const sigemptyset = native("int sigemptyset(void *set)");
const sigaddset = native("int sigaddset(void *set, int signal)");
const pipe2 = native("int pipe2(void *ends, int flags)");
const pipe = native("int pipe(void *ends)");
const fcntl = native("int fcntl(int fd, int command, ...)");
const syscall = native("long syscall(long number, ...)");

/** Whether a child can be born in a cgroup (glibc 2.39). */
export function canSpawnIntoCgroup(): boolean {
  return !onDarwin && hasNative(SET_CGROUP);
}

/** Starts a program on pipes of its own. Throws what `spawnOnto` throws. */
export function spawnNative(spec: NativeSpawn): NativeChild {
  const { child, parent } = openStandardPipes();
  try {
    return { pid: spawnOnto(spec, child), ...parent };
  } catch (failure) {
    closeStreams(parent);
    throw failure;
  } finally {
    closeStreams(child);
  }
}

/** Opens three pipes, or none. Both ends are the caller's to close. */
export function openStandardPipes(): StandardPipes {
  const open: number[] = [];
  try {
    const [stdinRead, stdin] = openPipe(open);
    const [stdout, stdoutWrite] = openPipe(open);
    const [stderr, stderrWrite] = openPipe(open);
    return {
      child: { stdin: stdinRead, stdout: stdoutWrite, stderr: stderrWrite },
      parent: { stdin, stdout, stderr },
    };
  } catch (failure) {
    for (const fd of open) closeSync(fd);
    throw failure;
  }
}

export function closeStreams({ stdin, stdout, stderr }: StandardStreams): void {
  for (const fd of [stdin, stdout, stderr]) closeSync(fd);
}

/**
 * Starts a program on these streams, which stay open here. The pid; throws a `SystemError` with the
 * errno of what failed, the exec included.
 */
export function spawnOnto(spec: NativeSpawn, { stdin, stdout, stderr }: StandardStreams): number {
  const actions = Buffer.alloc(OPAQUE_BYTES);
  const attributes = Buffer.alloc(OPAQUE_BYTES);
  checkedErrno("posix_spawn_file_actions_init", actionsInit(actions));
  try {
    checkedErrno("posix_spawnattr_init", attributesInit(attributes));
    try {
      [stdin, stdout, stderr].forEach((fd, as) => {
        checkedErrno("posix_spawn_file_actions_adddup2", addDup2(actions, fd, as));
      });
      checkedErrno("posix_spawn_file_actions_addfchdir_np", addFchdir(actions, spec.directory));
      closeTheRest(actions);
      setAttributes(attributes, spec);
      const pid = Buffer.alloc(4);
      checkedErrno(
        "posix_spawn",
        posixSpawn(
          pid,
          spec.executable,
          actions,
          attributes,
          [...spec.argv, null],
          [...spec.environment, null],
        ),
      );
      return pid.readInt32LE(0);
    } finally {
      attributesDestroy(attributes);
    }
  } finally {
    actionsDestroy(actions);
  }
}

function setAttributes(attributes: Buffer, spec: NativeSpawn): void {
  const all = Buffer.alloc(OPAQUE_BYTES);
  sigfillset(all);
  checkedErrno("posix_spawnattr_setsigdefault", setSignalDefaults(attributes, all));
  const blocked = Buffer.alloc(OPAQUE_BYTES);
  sigemptyset(blocked);
  for (const signal of spec.blockedSignals ?? []) checked("sigaddset", sigaddset(blocked, signal));
  checkedErrno("posix_spawnattr_setsigmask", setSignalMask(attributes, blocked));
  let flags = SETSID | SETSIGDEF | SETSIGMASK | CLOEXEC_DEFAULT;
  if (spec.cgroup !== undefined) {
    checkedErrno("posix_spawnattr_setcgroup_np", setCgroup(attributes, spec.cgroup));
    flags |= SETCGROUP;
  }
  checkedErrno("posix_spawnattr_setflags", setFlags(attributes, flags));
}

let canCloseFrom: boolean | undefined;

/** The first descriptor that is no standard stream. */
const FIRST_OTHER = 3;

function closeTheRest(actions: Buffer): void {
  if (onDarwin) return;
  canCloseFrom ??= hasNative(CLOSE_FROM);
  if (canCloseFrom)
    checkedErrno("posix_spawn_file_actions_addclosefrom_np", addCloseFrom(actions, FIRST_OTHER));
  else closeOthersAtExec();
}

/** Marks every descriptor of this process above the standard streams close-on-exec (close_range(2)). For a C library without `addclosefrom_np` (musl, glibc before 2.34). */
export function closeOthersAtExec(): void {
  const SYS_CLOSE_RANGE = 436;
  const CLOEXEC = 4;
  checked(
    "close_range",
    syscall(SYS_CLOSE_RANGE, "uint", FIRST_OTHER, "uint", 0xffff_ffff, "int", CLOEXEC),
  );
}

/** A pipe, both ends close-on-exec and noted in `open`: [read end, write end]. */
function openPipe(open: number[]): [number, number] {
  const ends = Buffer.alloc(8);
  if (onDarwin) checked("pipe", pipe(ends));
  else checked("pipe2", pipe2(ends, O_CLOEXEC));
  const [read, write] = [ends.readInt32LE(0), ends.readInt32LE(4)];
  open.push(read, write);
  if (onDarwin) {
    const F_SETFD = 2;
    const FD_CLOEXEC = 1;
    for (const end of [read, write]) checked("fcntl", fcntl(end, F_SETFD, "int", FD_CLOEXEC));
  }
  return [read, write];
}
