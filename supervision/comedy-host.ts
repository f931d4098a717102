/**
 * Owns comedy, the library that hosts the actors; no other module imports it. Each supervisor is a
 * comedy actor, each life of an actor is another below it, and every turn at a mailbox is a comedy
 * message. What comedy lacks or does unsafely ends here:
 * 1. Only its in-memory mode can be reached: the configuration is ours and empty (`actors.json` is
 *    neither read nor watched), the mode is forced, `listen` and the module loader are not offered.
 * 2. It handles no signal, runs no timer and prints nothing; its own lines go to pino.
 * 3. It never waits for us: a hosted callback returns at once and never throws, so that comedy's
 *    `destroy` always ends, and no error of an actor ever reaches comedy's log.
 * 4. It lets the event loop breathe: comedy's promises run their whole queue in one go, so actors that
 *    keep telling each other would starve the sockets; after `TURNS_PER_TICK` turns the rest waits.
 */
import { createRequire } from "node:module";
import comedy from "comedy";
import type { Logger } from "pino";

/**
 * Comedy scans a parent's whole list of children when one ends. A supervisor's lives are therefore
 * spread over groups of this many, so that ending one of 10,000 sessions costs what ending one of 64 does.
 */
const LIVES_PER_GROUP = 64;
const TURNS_PER_TICK = 64;

/** The place of one life. `turn` asks comedy to call its `onTurn` soon; `release` gives the place back. */
export interface Place {
  turn(): void;
  release(): void;
}

/** Where a supervisor's children live. */
export interface Nursery {
  /** Makes room for one life. `onTurn` must neither throw nor return anything. */
  place(name: string, onTurn: () => void): Promise<Place>;
  nursery(name: string): Nursery;
  /** Gives everything back; does not wait. */
  close(): void;
}

// --- comedy's own types are `any` in most places and wrong in some; these are what we use, exactly ---

interface ComedyActor {
  createChild(definition: Definition, config: ChildConfig): PromiseLike<unknown>;
  sendAndReceive(topic: "turn"): PromiseLike<unknown>;
  destroy(): PromiseLike<unknown>;
}

interface Definition {
  /** Comedy hands over the actor itself here; the reference `createChild` yields is a lesser proxy. */
  initialize(self: ComedyActor): void;
  turn(): void;
}

interface ChildConfig {
  readonly mode: "in-memory";
  readonly name: string;
  readonly id: string;
}

interface ComedySystem {
  rootActor(): PromiseLike<ComedyActor>;
  getLog(): { setLevel(level: number): void };
  destroy(): PromiseLike<unknown>;
}

const COMEDY_LEVEL = { warn: 3, debug: 5 } as const;

quietTheLibrariesOf(createRequire(createRequire(import.meta.url).resolve("comedy")));

/** Starts comedy; the nursery returned is the one of the root, and its `close` ends comedy. */
export function openComedy(log: Logger): Nursery {
  const system = withoutSignalHandlers(
    (): ComedySystem =>
      comedy.createSystem({
        config: Object.create(null),
        forceInMemory: true,
        busyLagLimit: 0,
        logger: comedyLogger(log),
      }),
  );
  // Every comedy actor copies this level, and at `debug` comedy writes three lines an actor.
  system.getLog().setLevel(log.isLevelEnabled("trace") ? COMEDY_LEVEL.debug : COMEDY_LEVEL.warn);
  return new ComedyNursery(system.rootActor(), new Pacer(), () => void system.destroy());
}

/** Some actors of one nursery, below a comedy actor of their own. */
interface Group {
  readonly host: Promise<ComedyActor>;
  members: number;
}

class ComedyNursery implements Nursery {
  readonly #host: PromiseLike<ComedyActor>;
  readonly #pacer: Pacer;
  readonly #end: () => void;
  readonly #withRoom = new Set<Group>();
  #closed = false;

  constructor(host: PromiseLike<ComedyActor>, pacer: Pacer, end: () => void) {
    this.#host = host;
    this.#pacer = pacer;
    this.#end = end;
  }

  async place(name: string, onTurn: () => void): Promise<Place> {
    const group = this.#join();
    try {
      const actor = await createChild(await group.host, name, onTurn);
      return new ComedyPlace(actor, this.#pacer, () => this.#leave(group));
    } catch (error) {
      this.#leave(group);
      throw error;
    }
  }

  nursery(name: string): Nursery {
    const host = createHost(this.#host, name);
    return new ComedyNursery(host, this.#pacer, () => endHost(host));
  }

  close(): void {
    this.#closed = true;
    this.#end();
  }

  #join(): Group {
    for (const group of this.#withRoom) {
      group.members += 1;
      if (group.members === LIVES_PER_GROUP) this.#withRoom.delete(group);
      return group;
    }
    const group = { host: createHost(this.#host, "group"), members: 1 };
    this.#withRoom.add(group);
    return group;
  }

  #leave(group: Group): void {
    group.members -= 1;
    this.#withRoom.add(group);
    // One empty group stays, so that actors that come and go one by one do not make one each time.
    if (group.members > 0 || this.#withRoom.size === 1 || this.#closed) return;
    this.#withRoom.delete(group);
    endHost(group.host);
  }
}

class ComedyPlace implements Place {
  readonly #actor: ComedyActor;
  readonly #pacer: Pacer;
  readonly #leave: () => void;
  #released = false;

  constructor(actor: ComedyActor, pacer: Pacer, leave: () => void) {
    this.#actor = actor;
    this.#pacer = pacer;
    this.#leave = leave;
  }

  turn(): void {
    this.#pacer.turn(this);
  }

  /** Comedy would reject the message to an actor that was destroyed, and bluebird write that to stderr. */
  take(): void {
    if (!this.#released) this.#actor.sendAndReceive("turn");
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#actor.destroy();
    this.#leave();
  }
}

/** Spreads turns over ticks of the event loop (invariant 4). A place has at most one turn under way. */
class Pacer {
  #turns = 0;
  #waiting: ComedyPlace[] = [];

  turn(place: ComedyPlace): void {
    this.#turns += 1;
    if (this.#turns <= TURNS_PER_TICK) place.take();
    else if (this.#waiting.push(place) === 1) setImmediate(() => this.#resume());
  }

  #resume(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#turns = 0;
    for (const place of waiting) this.turn(place);
  }
}

async function createChild(
  parent: ComedyActor,
  name: string,
  onTurn: () => void,
): Promise<ComedyActor> {
  let created: ComedyActor | undefined;
  const definition: Definition = {
    initialize(self) {
      created = self;
    },
    turn: onTurn,
  };
  // The id is only comedy's; giving one spares it the making of a BSON id for each actor.
  await parent.createChild(definition, { mode: "in-memory", name, id: name });
  if (created === undefined) throw new Error("comedy created an actor without starting it");
  return created;
}

async function createHost(parent: PromiseLike<ComedyActor>, name: string): Promise<ComedyActor> {
  return createChild(await parent, name, () => {});
}

function endHost(host: Promise<ComedyActor>): void {
  host.then(
    (actor) => actor.destroy(),
    // It never came to be: whoever asked for a place in it has been told.
    () => {},
  );
}

/** Runs `create` and takes away every handler of SIGINT and SIGTERM that it added: comedy's call `process.exit(0)`. */
function withoutSignalHandlers<T>(create: () => T): T {
  const signals = ["SIGINT", "SIGTERM"] as const;
  const before = signals.map((signal) => new Set(process.listeners(signal)));
  const created = create();
  for (const [index, signal] of signals.entries()) {
    for (const listener of process.listeners(signal)) {
      if (!before[index]?.has(listener)) process.removeListener(signal, listener);
    }
  }
  return created;
}

/** Comedy's lines as ours: its words up to the first value, since a value (an error, a configuration) could hold content. */
function comedyLogger(log: Logger) {
  const line = (level: "error" | "warn" | "debug" | "trace") => {
    return (...parts: readonly unknown[]): void => {
      const words = parts.filter((part) => typeof part === "string").join(" ");
      log[level]({ library: "comedy" }, words.split("=", 1)[0]);
    };
  };
  return { error: line("error"), warn: line("warn"), info: line("debug"), debug: line("trace") };
}

/**
 * `toobusy-js` samples the event loop twice a second for as long as the process lives, and only
 * comedy's overload switch, which we never set, reads it. Under `NODE_ENV=development` bluebird
 * records a stack for every promise (seven times slower) and writes warnings to stderr.
 */
function quietTheLibrariesOf(load: NodeJS.Require): void {
  call(load("toobusy-js"), "shutdown");
  call(load("bluebird"), "config", { longStackTraces: false, warnings: false });
  call(load("bluebird"), "setScheduler", beforeIo);
}

/**
 * Has bluebird go on before the event loop does: each wait for its next round is paid by every message.
 * After the promises under way, though: bluebird complains of a rejection that nobody has taken by then.
 */
function beforeIo(goOn: () => void): void {
  queueMicrotask(() => process.nextTick(goOn));
}

function call(library: unknown, method: string, ...args: readonly unknown[]): void {
  const found: unknown = Reflect.get(Object(library), method);
  if (typeof found !== "function") throw new Error(`a library of comedy's lacks ${method}()`);
  Reflect.apply(found, library, args);
}
