/**
 * Owns how a method is declared, once. Gateway and node validation, the SDK's types, the CLI's help
 * and the reference pages all derive from these declarations.
 */
import type { z } from "zod";
import type { Role, Scope } from "./scopes.ts";

export type Fields = z.ZodObject;

export interface MethodSpec<Params extends Fields = Fields, Result extends z.ZodType = z.ZodType> {
  readonly name: string;
  /** One sentence for the reference and the CLI's help. */
  readonly summary: string;
  /** Any one of these is enough; an empty list asks for none. */
  readonly scopes: readonly Scope[];
  /** A role the caller must have, whatever its scopes. */
  readonly role?: Role;
  readonly params: Params;
  /** Unknown parameters are ignored, except where the contract says "exact request fields". */
  readonly unknownParams: "ignored" | "refused";
  readonly result: Result;
  /** Fields of the result that are those of the parameters, to the letter. */
  readonly echoes: readonly string[];
  /** Whether it changes anything; decides what an uncertain answer has to say. */
  readonly effect: "read" | "mutation";
  /** True when the very same call may be repeated after a lost answer. */
  readonly retrySafe: boolean;
  /** The read that tells what became of a mutation whose answer was lost; null when none does. */
  readonly settledBy: SettledBy | null;
  /** What to know and do after a lost answer of a mutation that may not be repeated where no read tells. */
  readonly unsettled: string | null;
  /** How long the control plane waits for whoever does the work, in ms. */
  readonly deadlineMs: (params: z.infer<Params>) => number;
  /**
   * The most bytes that the answer to a read may take on `/ws`, where that is much: such a read is begun when
   * its answer can be held. 0 for all others.
   */
  readonly answerBytes: (params: z.infer<Params>) => number;
}

/** A method that changes nothing, and those parameters of the uncertain call that it takes. */
export interface SettledBy {
  readonly method: string;
  readonly params: readonly string[];
}

/** Declares that `read`, with these parameters of the uncertain call, settles it. */
export function settledBy<Params extends Fields>(
  read: Pick<MethodSpec<Params>, "name" | "params">,
  ...params: readonly (keyof Params["shape"] & string)[]
): SettledBy {
  return { method: read.name, params };
}

/** The normal broker deadline (node-host-io.md), in ms. */
const NORMAL_DEADLINE_MS = 30_000;

type MethodInput<Name extends string, Params extends Fields, Result extends z.ZodType> = Pick<
  MethodSpec<Params, Result>,
  "summary" | "scopes" | "params" | "result" | "effect"
> &
  Partial<
    Pick<
      MethodSpec<Params, Result>,
      | "role"
      | "unknownParams"
      | "echoes"
      | "retrySafe"
      | "settledBy"
      | "unsettled"
      | "deadlineMs"
      | "answerBytes"
    >
  > & { readonly name: Name };

/** Declares a method; a read is safe to repeat unless it says otherwise. */
export function method<const Name extends string, Params extends Fields, Result extends z.ZodType>(
  input: MethodInput<Name, Params, Result>,
): MethodSpec<Params, Result> & { readonly name: Name } {
  return {
    unknownParams: "ignored",
    echoes: [],
    retrySafe: input.effect === "read",
    settledBy: null,
    unsettled: null,
    deadlineMs: () => NORMAL_DEADLINE_MS,
    answerBytes: () => 0,
    ...input,
  };
}
