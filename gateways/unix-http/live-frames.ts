/**
 * Owns frames of a source that keeps nothing (journal, network events): numbered for each connection from 1,
 * and begun with one `lost` frame for a reader that comes back (wire reference, 8.1). What waits is bounded: a
 * source that can be held up is held up, one that can not loses its oldest, and says so.
 */
import { type Frame, type FrameReader, LOST } from "../../actors/job/messages.ts";

/** Frames that wait for a reader. */
const WAITING_LIMIT = 256;
/** What waits may weigh before the source is held up; a frame may be of any weight. */
const WEIGHT_LIMIT = 262_144;

class Numbered<Data> {
  #waiting: (Data | typeof LOST)[] = [];
  #id = 0;
  #tell: () => void = () => {};

  constructor(resumed: boolean) {
    if (resumed) this.#waiting.push(LOST);
  }

  get size(): number {
    return this.#waiting.length;
  }

  push(data: Data): void {
    this.#waiting.push(data);
    this.#tell();
  }

  /** Makes room by one; what went is told in its place. */
  loseOldest(): void {
    this.#waiting.splice(0, this.#waiting[0] === LOST ? 2 : 1, LOST);
  }

  wake(): void {
    this.#tell();
  }

  /** Resolves at the next push or `wake`. */
  change(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = resolve;
    });
  }

  take(): readonly Frame<Data>[] {
    const taken = this.#waiting;
    this.#waiting = [];
    return taken.map((data) => {
      this.#id += 1;
      return { id: this.#id, data };
    });
  }
}

export interface FollowOptions<Data> {
  /** Begins the source; aborting ends it. */
  readonly follow: (signal: AbortSignal) => AsyncIterable<Data>;
  /** The reader was here before: its request names a last event. */
  readonly resumed: boolean;
  /** About the bytes of a frame. */
  readonly weightOf: (data: Data) => number;
}

/** Frames of an iteration, which is asked for no more than a reader takes. */
export class FollowedFrames<Data> implements FrameReader<Data> {
  readonly #frames: Numbered<Data>;
  readonly #options: FollowOptions<Data>;
  readonly #abort = new AbortController();
  #state: "idle" | "running" | "ended" = "idle";
  #failure: unknown;
  #weight = 0;
  #goOn: () => void = () => {};

  constructor(options: FollowOptions<Data>) {
    this.#options = options;
    this.#frames = new Numbered(options.resumed);
  }

  /** Rejects with what the iteration threw, after all that came before. */
  async next(): Promise<readonly Frame<Data>[] | null> {
    if (this.#state === "idle") {
      this.#state = "running";
      void this.#run();
    }
    while (this.#frames.size === 0) {
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#state === "ended") return null;
      await this.#frames.change();
    }
    this.#weight = 0;
    this.#goOn();
    return this.#frames.take();
  }

  close(): void {
    this.#state = "ended";
    this.#abort.abort();
    this.#goOn();
    this.#frames.take();
    this.#frames.wake();
  }

  async #run(): Promise<void> {
    const { follow, weightOf } = this.#options;
    try {
      for await (const data of follow(this.#abort.signal)) {
        if (this.#abort.signal.aborted) break;
        this.#frames.push(data);
        this.#weight += weightOf(data);
        await this.#room();
      }
    } catch (failure) {
      if (!this.#abort.signal.aborted) this.#failure = failure;
    }
    this.#state = "ended";
    this.#frames.wake();
  }

  async #room(): Promise<void> {
    const isFull = (): boolean =>
      this.#frames.size >= WAITING_LIMIT || this.#weight >= WEIGHT_LIMIT;
    while (isFull() && !this.#abort.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#goOn = resolve;
      });
    }
  }
}

export interface WatchOptions<Data> {
  /** Begins the source; what it returns ends it. */
  readonly watch: (onEvent: (data: Data) => void) => () => void;
  readonly resumed: boolean;
}

/** Frames of a source that waits for nobody: of what a reader does not take the latest is kept. */
export class WatchedFrames<Data> implements FrameReader<Data> {
  readonly #frames: Numbered<Data>;
  readonly #unwatch: () => void;
  #closed = false;

  constructor({ watch, resumed }: WatchOptions<Data>) {
    this.#frames = new Numbered(resumed);
    this.#unwatch = watch((data) => {
      if (this.#closed) return;
      if (this.#frames.size >= WAITING_LIMIT) this.#frames.loseOldest();
      this.#frames.push(data);
    });
  }

  async next(): Promise<readonly Frame<Data>[] | null> {
    while (this.#frames.size === 0) {
      if (this.#closed) return null;
      await this.#frames.change();
    }
    return this.#closed ? null : this.#frames.take();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#unwatch();
    this.#frames.wake();
  }
}
