/**
 * Owns what `lemon process run` asks for, made of flags and standard input. Every bound of the
 * contract is checked here, so that a mistake costs nothing: no connection, no spent id.
 */
import { randomUUID } from "node:crypto";
import { processId } from "../../protocol/ids.ts";
import type { InputOf } from "../../protocol/methods.ts";
import { PROCESS_BOUNDS, runFields } from "../../protocol/process.ts";
import { durationMs, sizeBytes } from "../arguments.ts";
import { openUserFile, readWhole } from "../bounded-read.ts";
import { UsageError } from "../exit.ts";
import type { Shell } from "../shell.ts";

export interface RequestFlags {
  readonly id?: string;
  readonly cwd?: string;
  readonly timeout?: string;
  readonly maxOutput?: string;
  readonly stdin?: string;
}

export type RunRequest = Omit<InputOf<"node.process.run">, "nodeId">;

/** A schema of the protocol, as far as this file needs it. */
interface Field<T> {
  safeParse(value: unknown):
    | { readonly success: true; readonly data: T }
    | {
        readonly success: false;
        readonly error: { readonly issues: readonly { readonly message: string }[] };
      };
}

/** Reads standard input last: nothing is consumed for a request that is wrong anyway. */
export async function runRequest(
  shell: Shell,
  flags: RequestFlags,
  argv: readonly string[],
): Promise<RunRequest> {
  if (argv.length === 0)
    throw new UsageError("nothing to run", "write the command after --: … -- uname -a");
  // Node decodes arguments with replacement; running a mangled name is worse than refusing.
  if (argv.some((argument) => argument.includes("\ufffd")))
    throw new UsageError("an argument is not valid UTF-8 (or holds U+FFFD)");
  const request = {
    processId: flags.id === undefined ? newProcessId() : readProcessId("--id", flags.id),
    cwd: checked("--cwd", runFields.cwd, flags.cwd ?? "."),
    argv: checked("the command", runFields.argv, [...argv]),
    timeoutMs: timeout(flags.timeout ?? "60s"),
    maxOutputBytes: maxOutput(flags.maxOutput ?? "1MiB"),
  };
  const stdin = await readStdin(shell, flags.stdin);
  return { ...request, stdinBase64: stdin.toString("base64") };
}

/** A process id as the contract allows it. */
export function readProcessId(flag: string, text: string): string {
  return checked(flag, processId, text);
}

function newProcessId(): string {
  return `run:${randomUUID()}`;
}

function checked<T>(flag: string, field: Field<T>, value: unknown): T {
  const read = field.safeParse(value);
  if (read.success) return read.data;
  throw new UsageError(`${flag} ${read.error.issues[0]?.message ?? "is not valid"}`);
}

function timeout(text: string): number {
  const ms = durationMs("--timeout", text);
  const { min, max } = PROCESS_BOUNDS.timeoutMs;
  if (ms < min || ms > max) throw new UsageError("--timeout must be 1s to 30m");
  return ms;
}

function maxOutput(text: string): number {
  const bytes = sizeBytes("--max-output", text);
  const { min, max } = PROCESS_BOUNDS.outputBytes;
  if (bytes < min || bytes > max) throw new UsageError("--max-output must be 1 to 1MiB");
  return bytes;
}

/** Nothing, the bytes of our own standard input (`-`), or those of a file. */
async function readStdin(shell: Shell, source: string | undefined): Promise<Buffer> {
  if (source === undefined) return Buffer.alloc(0);
  const stream = source === "-" ? shell.stdin : openUserFile(shell.cwd, source);
  return readWhole("--stdin", stream, PROCESS_BOUNDS.stdinBytes);
}
