/**
 * Owns the refusal of a system call by the kernel itself (seccomp(2)), as an old kernel, a container's
 * profile or a file system refuses it. Bound to the thread, and for good: only for a process of its own.
 */
import { constants } from "node:os";
import { checked, native } from "../../host/native/library.ts";

/** x64, arm64. */
const SYSCALLS = {
  renameat2: { x64: 316, arm64: 276 },
  fsync: { x64: 74, arm64: 82 },
  unlinkat: { x64: 263, arm64: 35 },
} as const;

const prctl = native("int prctl(int option, ...)");
const malloc = native("uintptr_t malloc(size_t size)");
const memcpy = native("uintptr_t memcpy(uintptr_t to, const void *from, size_t size)");

/** From now on this thread's call answers with an errno, or kills the process. False when this kind of machine's number is not known. */
export function refuseSyscall(
  name: keyof typeof SYSCALLS,
  answer: keyof typeof constants.errno | "kill",
): boolean {
  const numbers: Readonly<Record<string, number | undefined>> = SYSCALLS[name];
  const number = numbers[process.arch];
  if (number === undefined || process.platform !== "linux") return false;
  const PR_SET_SECCOMP = 22;
  const PR_SET_NO_NEW_PRIVS = 38;
  const MODE_FILTER = 2;
  checked("prctl", prctl(PR_SET_NO_NEW_PRIVS, "ulong", 1, "ulong", 0, "ulong", 0, "ulong", 0));
  const filter = program([
    [0x20, 0, 0, 0],
    [0x15, 0, 1, number],
    [0x06, 0, 0, answer === "kill" ? KILL_PROCESS : REFUSE | constants.errno[answer]],
    [0x06, 0, 0, ALLOW],
  ]);
  const place = malloc(filter.length);
  memcpy(place, filter, filter.length);
  const described = Buffer.alloc(16);
  described.writeUInt16LE(filter.length / INSTRUCTION_BYTES, 0);
  described.writeBigUInt64LE(BigInt(place), 8);
  checked("prctl", prctl(PR_SET_SECCOMP, "ulong", MODE_FILTER, "void *", described));
  return true;
}

const KILL_PROCESS = 0x8000_0000;
const REFUSE = 0x0005_0000;
const ALLOW = 0x7fff_0000;
const INSTRUCTION_BYTES = 8;

/** `struct sock_filter`s: code, jump if true, jump if false, constant. */
function program(instructions: readonly (readonly [number, number, number, number])[]): Buffer {
  const bytes = Buffer.alloc(instructions.length * INSTRUCTION_BYTES);
  instructions.forEach(([code, ifTrue, ifFalse, constant], index) => {
    const at = index * INSTRUCTION_BYTES;
    bytes.writeUInt16LE(code, at);
    bytes.writeUInt8(ifTrue, at + 2);
    bytes.writeUInt8(ifFalse, at + 3);
    bytes.writeUInt32LE(constant, at + 4);
  });
  return bytes;
}
