/**
 * Owns what the kernel may write about an error: a code and, at debug, where it was thrown. An error's
 * message, its properties and its cause may hold content (a path, an argument, a secret), so none of them is
 * ever written.
 */
import type { Logger } from "pino";
import { isRefusal, unlessItThrows } from "./outcome.ts";

const CLASS_NAME = /^[A-Za-z_$][\w$]{0,63}$/;
const FRAME = /^\s+at \S/;
/** What V8 writes before a message: `Error: `, `TypeError [ERR_INVALID_ARG_TYPE]: `. */
const STACK_HEAD = /^[\w$.]+(?: \[\w+\])?(?:: |(?=\n))/;

/** The table's code, or the class's name; never anything the error says. */
export function codeOf(error: unknown): string {
  return unlessItThrows(() => nameOf(error), "Error");
}

function nameOf(error: unknown): string {
  if (isRefusal(error)) return error.code;
  if (!(error instanceof Error)) return typeof error;
  const maker: unknown = error.constructor;
  return typeof maker === "function" && CLASS_NAME.test(maker.name) ? maker.name : "Error";
}

/** The frames of the error's stack, or none where they cannot be told from its message with certainty. */
export function framesOf(error: unknown): readonly string[] {
  return unlessItThrows(() => readFrames(error), []);
}

function readFrames(error: unknown): readonly string[] {
  if (!(error instanceof Error)) return [];
  const stack: unknown = error.stack;
  const message: unknown = error.message;
  if (typeof stack !== "string" || typeof message !== "string") return [];
  const head = STACK_HEAD.exec(stack)?.[0].length;
  // A message that was changed after the error was made is not in the stack as it reads now.
  if (head === undefined || !stack.startsWith(`${message}\n`, head)) return [];
  return stack
    .slice(head + message.length)
    .split("\n")
    .filter((line) => FRAME.test(line))
    .map((line) => line.trim());
}

/** Writes where an error came from, for whoever turned debug on. */
export function logFrames(log: Logger, fields: object, error: unknown): void {
  if (!log.isLevelEnabled("debug")) return;
  log.debug({ ...fields, code: codeOf(error), frames: framesOf(error) }, "error thrown at");
}
