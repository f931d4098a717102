/**
 * Owns one job's log: the last 256 KiB of what it wrote, and whoever reads along (host-agent contract, "SSE
 * reconnect"). Invariants:
 *
 * 1. Ids grow by one from 1. A reader is given each id once, in order; what it can not be given any more is one
 *    `lost` frame, then everything that is still kept.
 * 2. The log never waits for a reader, and what it holds for one is bounded: a reader that has caught up is
 *    handed lines as they come, up to `BACKLOG_WEIGHT`; one further behind takes from the ring what is left there.
 * 3. A line is whole as long as its frame stays below what the existing client reads (1 MiB); a longer one goes on
 *    in the next frame, parted between characters.
 */
import type { Clock } from "../../host/clock.ts";
import { type Frame, type FrameReader, LOST, type LogLine, type LogStream } from "./messages.ts";

/** Text units of all lines, and `LINE_WEIGHT` for each; the latest line is kept whatever it weighs. */
const RING_WEIGHT = 262_144;
const LINE_WEIGHT = 32;
/** Enough for the longest burst that one turn of the event loop can bring, so that a quick reader loses nothing. */
const BACKLOG_WEIGHT = 2_097_152;
/** What one call of `next` hands over, and one line more. */
const BATCH_WEIGHT = 65_536;
/** Bytes of a line as JSON: with the rest of its frame, below 1 MiB. */
const LONGEST_JSON_BYTES = 1_048_576 - 512;
/** No UTF-16 unit becomes more bytes of JSON than this. */
const JSON_BYTES_PER_UNIT = 6;

interface Entry extends Frame<LogLine> {
  readonly weight: number;
}

export class JobLog {
  readonly #clock: Clock;
  readonly #readers = new Set<Reader>();
  /** In order of their ids, without a gap; those before `#head` are gone. */
  #entries: Entry[] = [];
  #head = 0;
  #weight = 0;
  #newest = 0;
  #ended = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  append(stream: LogStream, text: string): void {
    if (this.#ended) return;
    const ts = new Date(this.#clock.nowMs()).toISOString();
    for (const line of piecesOf(text)) this.#add({ ts, stream, line });
  }

  /** Nothing is added any more: its readers end with what there is. */
  end(): void {
    this.#ended = true;
    for (const reader of this.#readers) reader.wake();
    this.#readers.clear();
  }

  /** What comes behind `lastEventId`; null: everything that is kept. */
  read(lastEventId: number | null): FrameReader<LogLine> {
    const reader = new Reader(this, this.#placeOf(lastEventId), (one) => this.#readers.delete(one));
    if (!this.#ended) this.#readers.add(reader);
    return reader;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** The id before the oldest line that is kept. */
  get goneUpTo(): number {
    return this.#entries[this.#head]?.id === undefined
      ? this.#newest
      : this.#newest - (this.#entries.length - this.#head);
  }

  /** The kept line of this id. */
  at(id: number): Entry | undefined {
    const index = id - this.goneUpTo - 1;
    return index < 0 ? undefined : this.#entries[this.#head + index];
  }

  /** -1 is a place behind which something is missing whatever is kept. */
  #placeOf(lastEventId: number | null): number {
    if (lastEventId === null) return this.goneUpTo;
    if (lastEventId > 0 && this.#newest === 0) return -1;
    return Math.min(lastEventId, this.#newest);
  }

  #add(data: LogLine): void {
    this.#newest += 1;
    const entry = { id: this.#newest, data, weight: data.line.length + LINE_WEIGHT };
    this.#entries.push(entry);
    this.#weight += entry.weight;
    while (this.#weight > RING_WEIGHT && this.#entries.length - this.#head > 1) {
      this.#weight -= this.#entries[this.#head]?.weight ?? 0;
      this.#head += 1;
    }
    // Most of the list is gone: the rest moves, so that each line moves seldom.
    if (this.#head * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#head);
      this.#head = 0;
    }
    for (const reader of this.#readers) reader.offer(entry);
  }
}

class Reader implements FrameReader<LogLine> {
  readonly #log: JobLog;
  readonly #leave: (reader: Reader) => void;
  /** The last id that was handed over, or waits in `#backlog`. */
  #place: number;
  #backlog: Entry[] = [];
  #backlogWeight = 0;
  #closed = false;
  #tell: () => void = () => {};

  constructor(log: JobLog, place: number, leave: (reader: Reader) => void) {
    this.#log = log;
    this.#place = place;
    this.#leave = leave;
  }

  async next(): Promise<readonly Frame<LogLine>[] | null> {
    for (;;) {
      if (this.#closed) return null;
      const frames = this.#take();
      if (frames.length > 0) return frames;
      if (this.#log.ended) return null;
      await new Promise<void>((resolve) => {
        this.#tell = resolve;
      });
    }
  }

  close(): void {
    this.#closed = true;
    this.#backlog = [];
    this.#leave(this);
    this.wake();
  }

  wake(): void {
    this.#tell();
  }

  /** Told of each line that is added. */
  offer(entry: Entry): void {
    const fits = this.#backlog.length === 0 || this.#backlogWeight + entry.weight <= BACKLOG_WEIGHT;
    if (this.#place === entry.id - 1 && fits) {
      this.#backlog.push(entry);
      this.#backlogWeight += entry.weight;
      this.#place = entry.id;
    }
    this.#tell();
  }

  #take(): Frame<LogLine>[] {
    return this.#backlog.length > 0 ? this.#fromBacklog() : this.#fromRing();
  }

  #fromBacklog(): Frame<LogLine>[] {
    let weight = 0;
    let count = 0;
    for (const entry of this.#backlog) {
      if (weight >= BATCH_WEIGHT) break;
      weight += entry.weight;
      count += 1;
    }
    this.#backlogWeight -= weight;
    return this.#backlog.splice(0, count).map(frameOf);
  }

  #fromRing(): Frame<LogLine>[] {
    const frames: Frame<LogLine>[] = [];
    const { goneUpTo } = this.#log;
    if (this.#place < goneUpTo || this.#place < 0) {
      frames.push({ id: goneUpTo, data: LOST });
      this.#place = goneUpTo;
    }
    let weight = 0;
    for (;;) {
      const entry = this.#log.at(this.#place + 1);
      if (entry === undefined || weight >= BATCH_WEIGHT) return frames;
      frames.push(frameOf(entry));
      weight += entry.weight;
      this.#place = entry.id;
    }
  }
}

function frameOf({ id, data }: Entry): Frame<LogLine> {
  return { id, data };
}

/** The log of a job of which nothing is kept: that lines are lost, if there were any, and its end. */
export function forgottenLog(hadLines: boolean): FrameReader<LogLine> {
  let left = hadLines;
  return {
    async next() {
      if (!left) return null;
      left = false;
      return [{ id: 0, data: LOST }];
    },
    close() {
      left = false;
    },
  };
}

function piecesOf(text: string): readonly string[] {
  if (text.length * JSON_BYTES_PER_UNIT <= LONGEST_JSON_BYTES) return [text];
  if (Buffer.byteLength(JSON.stringify(text)) <= LONGEST_JSON_BYTES) return [text];
  const half = Math.floor(text.length / 2);
  const unit = text.charCodeAt(half);
  // The second half of a surrogate pair belongs to the first.
  const at = unit >= 0xdc00 && unit <= 0xdfff ? half - 1 : half;
  return [...piecesOf(text.slice(0, at)), ...piecesOf(text.slice(at))];
}
