/**
 * Owns the way into libc: the only module that imports koffi.
 *
 * 1. Importing it never fails. A platform without koffi or without a symbol is told when the call is
 *    made: `not_implemented`.
 * 2. No string that holds NUL reaches koffi, which would cut it there without a word.
 * 3. A variadic C function is declared with `...`: on darwin/arm64 its arguments travel elsewhere.
 */
import { LemonError } from "../../protocol/errors.ts";
import { errnoName, SystemError } from "../system-error.ts";

type Koffi = typeof import("koffi");

/** What may be handed to a C function. Numbers also stand for descriptors, flags and sizes. */
export type NativeValue =
  | number
  | bigint
  | string
  | null
  | NodeJS.ArrayBufferView
  | readonly (string | null)[];

/** A C function that returns an integer. */
export type NativeFunction = (...args: readonly NativeValue[]) => number;

const loaded: Koffi | { readonly failure: unknown } = await import("koffi").catch(
  (failure: unknown) => ({ failure }),
);

function koffi(): Koffi {
  if ("failure" in loaded) {
    throw new LemonError("not_implemented", {
      message: "Native calls are not available on this platform",
      cause: loaded.failure,
    });
  }
  return loaded;
}

let libc: ReturnType<Koffi["load"]> | undefined;

/** The process's own C library, whatever its file is called (glibc, musl, libSystem). */
function library(): ReturnType<Koffi["load"]> {
  libc ??= koffi().load(null);
  return libc;
}

function checkedString(value: NativeValue): void {
  if (typeof value === "string" && value.includes("\0"))
    throw new LemonError("invalid_params", { message: "A string for the system contains NUL" });
}

function refuseNul(args: readonly NativeValue[]): void {
  for (const arg of args) {
    if (isList(arg)) arg.forEach(checkedString);
    else checkedString(arg);
  }
}

/** `Array.isArray` does not narrow a readonly array away from the views. */
function isList(value: NativeValue): value is readonly (string | null)[] {
  return Array.isArray(value);
}

/** Resolves a declaration such as `int flock(int, int)` at its first call. */
export function native(declaration: string): NativeFunction {
  let bound: NativeFunction | undefined;
  return (...args) => {
    bound ??= resolve(declaration);
    return bound(...args);
  };
}

/** Whether this C library has the symbol. False without koffi, too. */
export function hasNative(declaration: string): boolean {
  try {
    library().func(declaration);
    return true;
  } catch {
    return false;
  }
}

function resolve(declaration: string): NativeFunction {
  let call: (...args: readonly NativeValue[]) => unknown;
  try {
    call = library().func(declaration);
  } catch (cause) {
    if (cause instanceof LemonError) throw cause;
    throw new LemonError("not_implemented", {
      message: "This C library lacks a call that lemon needs",
      cause,
    });
  }
  return (...args) => {
    refuseNul(args);
    return integer(call(...args));
  };
}

/** Like `native`, for a call that blocks: it runs on a thread of koffi's, not of libuv's pool. */
export function nativeBlocking(
  declaration: string,
): (...args: readonly NativeValue[]) => Promise<number> {
  return async (...args) => {
    refuseNul(args);
    const call = library().func(declaration);
    return await new Promise((resolved, rejected) => {
      call.async(...args, (failure: unknown, result: unknown) => {
        if (failure === null || failure === undefined) resolved(integer(result));
        else rejected(failure);
      });
    });
  };
}

function integer(result: unknown): number {
  if (typeof result === "number") return result;
  if (typeof result === "bigint") return Number(result);
  throw new LemonError("internal_error");
}

/** Passes a result that is not negative on; turns -1 into the `SystemError` that `errno` says. */
export function checked(syscall: string, result: number): number {
  if (result >= 0) return result;
  throw new SystemError(syscall, errnoName(koffi().errno()) ?? "EUNKNOWN");
}

/** For the calls that return their errno instead of setting it (`posix_spawn` and its kin). */
export function checkedErrno(syscall: string, errno: number): void {
  if (errno !== 0) throw new SystemError(syscall, errnoName(errno) ?? "EUNKNOWN");
}
