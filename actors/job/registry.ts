/**
 * Owns which kinds of job there are, each held to its declaration before anything is served: what the type
 * demands is checked once more, since a kind may come from code that no compiler saw.
 */
import { LemonError } from "../../protocol/errors.ts";
import { type JobAttributes, type JobKind, type JobTools, RESOURCE_CLASSES } from "./kind.ts";
import type { JobResult } from "./messages.ts";

/** A request that was read, and what can be done with it. */
export interface PreparedJob {
  run(tools: JobTools): Promise<JobResult>;
  /** Zeroes its credentials. */
  wipe(): void;
}

/** A kind whose request type is its own business. */
export interface RegisteredKind extends JobAttributes {
  prepare(body: unknown): PreparedJob;
}

/** Errors: `internal_error`, naming the attribute, for a kind that declares too little, too much or nonsense. */
export function jobKind<Request>(kind: JobKind<Request>): RegisteredKind {
  check(kind);
  const { name, maxDurationMs, dangerous, resourceClass, stallPolicy, whenBusy } = kind;
  return {
    name,
    maxDurationMs,
    dangerous,
    resourceClass,
    stallPolicy,
    whenBusy,
    prepare(body) {
      const request = kind.read(body);
      return {
        run: (tools) => kind.run({ ...tools, request }),
        wipe: () => {
          for (const credential of kind.credentials(request)) credential.fill(0);
        },
      };
    },
  };
}

export class JobKinds {
  readonly #byName: ReadonlyMap<string, RegisteredKind>;

  /** Errors: `internal_error` for two of one name. */
  constructor(kinds: readonly RegisteredKind[]) {
    this.#byName = new Map(kinds.map((kind) => [kind.name, kind]));
    if (this.#byName.size < kinds.length) throw refused("name", "is taken by another kind");
  }

  /** Undefined when there is no such kind. */
  get(name: string): RegisteredKind | undefined {
    return this.#byName.get(name);
  }
}

const NAME = /^[a-z][a-z0-9-]{0,63}$/;

type Rule = readonly [holds: (value: unknown) => boolean, must: string];

const isFunction: Rule = [(value) => typeof value === "function", "must be a function"];
const isDuration = (value: unknown): boolean =>
  typeof value === "number" && Number.isFinite(value) && value > 0;

/** One rule an attribute, so that a new attribute without one does not compile. */
const RULES: Readonly<Record<keyof JobKind<unknown>, Rule>> = {
  name: [
    (value) => typeof value === "string" && NAME.test(value),
    "must be 1 to 64 of a to z, 0 to 9 and -, beginning with a letter",
  ],
  maxDurationMs: [isDuration, "must be a number of ms above 0"],
  dangerous: [(value) => typeof value === "boolean", "must be true or false"],
  resourceClass: [
    (value) => RESOURCE_CLASSES.some((known) => known === value),
    `must be one of ${RESOURCE_CLASSES.join(", ")}`,
  ],
  stallPolicy: [
    (value) => value === "none" || isDuration(noProgressMsOf(value)),
    'must be "none" or {noProgressMs} above 0',
  ],
  whenBusy: [(value) => value === "queue" || value === "reject", 'must be "queue" or "reject"'],
  read: isFunction,
  credentials: isFunction,
  run: isFunction,
};

function noProgressMsOf(value: unknown): unknown {
  return typeof value === "object" && value !== null && "noProgressMs" in value
    ? value.noProgressMs
    : undefined;
}

function check<Request>(kind: JobKind<Request>): void {
  const declared = new Map<string, unknown>(Object.entries(kind));
  for (const [attribute, [holds, must]] of Object.entries(RULES)) {
    if (!holds(declared.get(attribute))) throw refused(attribute, must);
  }
  for (const attribute of declared.keys()) {
    if (!(attribute in RULES)) throw refused(attribute, "is no attribute of a kind");
  }
}

function refused(attribute: string, what: string): LemonError {
  return new LemonError("internal_error", { message: `A kind of job: ${attribute} ${what}` });
}
