/**
 * Owns what a control plane serves: for each handler its declaration, worked out once into what a request
 * needs. What has no handler does not exist; what exists is advertised.
 *
 * The order of refusal is fixed (control-plane-wire.md 1.5, rulings): unknown method, parameters, role and
 * scope, then the handler's own.
 */
import { LemonError } from "../../protocol/errors.ts";
import type { MethodSpec } from "../../protocol/method.ts";
import { METHODS } from "../../protocol/methods.ts";
import { paramsReader } from "../../protocol/params.ts";
import { Base64 } from "./answer-text.ts";
import type { Caller, MethodHandlers } from "./handler.ts";

/** One served method. */
export interface Route {
  readonly method: string;
  readonly mutation: boolean;
  /** Whether the very same call may be repeated after a lost answer. */
  readonly retrySafe: boolean;
  /** Reads the parameters and checks the caller. Throws what the request is refused with. */
  admit(raw: unknown, caller: Caller): Admitted;
  /** Whether a handler's result is what was declared. */
  declares(result: unknown): boolean;
}

export interface Admitted {
  /** How long the work may take, in ms. */
  readonly deadlineMs: number;
  /** What the answer may take, where that is much; else 0. */
  readonly answerBytes: number;
  /** Calls the handler: its result, or a promise of it. */
  run(): unknown;
}

/** Any handler, seen from the table that pairs it with the declaration it was written for. */
type AnyHandler = (params: never, caller: Caller) => unknown;

export class Routes {
  readonly #routes: ReadonlyMap<string, Route>;
  /** The methods' names, sorted: `hello-ok.features.methods`. */
  readonly names: readonly string[];

  constructor(handlers: Partial<MethodHandlers>) {
    const routes = Object.entries(handlers).map(([name, handler]): [string, Route] => {
      const spec = METHODS.get(name);
      if (spec === undefined) throw new TypeError(`a handler for ${name}, which is not declared`);
      return [name, route(spec, handler)];
    });
    this.#routes = new Map(routes.sort(([a], [b]) => (a < b ? -1 : 1)));
    this.names = [...this.#routes.keys()];
  }

  /** Throws `method_not_found`. */
  find(method: string): Route {
    const found = this.#routes.get(method);
    if (found !== undefined) return found;
    throw new LemonError("method_not_found", { message: `Unknown method: ${shown(method)}` });
  }
}

function route(spec: MethodSpec, handler: AnyHandler): Route {
  const readParams = paramsReader(spec);
  return {
    method: spec.name,
    mutation: spec.effect === "mutation",
    retrySafe: spec.retrySafe,
    admit(raw, caller) {
      const params = readParams(raw);
      checkRights(spec, caller);
      return {
        deadlineMs: spec.deadlineMs(params),
        answerBytes: spec.answerBytes(params),
        // The value was read by the very declaration that the handler is typed with.
        run: () => handler(params as never, caller),
      };
    },
    declares: (result) => spec.result.safeParse(asText(result)).success,
  };
}

/** As its client will read it. */
function asText(result: unknown): unknown {
  if (typeof result !== "object" || result === null || Array.isArray(result)) return result;
  const text = (value: unknown) => (value instanceof Base64 ? value.toJSON() : value);
  return Object.fromEntries(Object.entries(result).map(([name, value]) => [name, text(value)]));
}

function checkRights(spec: MethodSpec, caller: Caller): void {
  if (spec.role !== undefined && caller.role !== spec.role) {
    throw new LemonError("forbidden", {
      message: `Method ${spec.name} requires ${spec.role} role`,
    });
  }
  if (spec.scopes.length > 0 && !spec.scopes.some((scope) => caller.scopes.includes(scope))) {
    throw new LemonError("forbidden", { message: `Insufficient permissions for ${spec.name}` });
  }
}

/** A client's own word goes back to it, but bounded and printable. */
function shown(method: string): string {
  return method.slice(0, 128).replace(/[^\x20-\x7e]/g, "?");
}
