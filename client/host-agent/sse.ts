/**
 * Owns the reading of an event stream (HTML standard, "Server-sent events"): bytes to events, with bounds.
 * https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
 *
 * 1. An event is given once it is whole; what the stream ends in the midst of is not.
 * 2. No line and no event is longer than `LONGEST_UNITS`, however it is cut into pieces.
 */

export interface StreamEvent {
  /** The last id that the stream named; null before the first. */
  readonly id: string | null;
  readonly data: string;
}

/** Of a line, and of the data of one event: the host sends lines of 1 MiB, which JSON may make six times longer. */
const LONGEST_UNITS = 8 * 1_048_576;

export class EventReader {
  readonly #decoder = new TextDecoder("utf-8");
  #line = "";
  #data: string[] = [];
  #dataUnits = 0;
  #id: string | null = null;
  /** The piece before ended in a CR: a LF right behind it belongs to it. */
  #endedInReturn = false;

  /** The events that these bytes complete. Throws `RangeError` beyond the bounds. */
  read(bytes: Uint8Array): StreamEvent[] {
    let text = this.#decoder.decode(bytes, { stream: true });
    if (text === "") return [];
    if (this.#endedInReturn && text.startsWith("\n")) text = text.slice(1);
    if (text !== "") this.#endedInReturn = text.endsWith("\r");
    const lines = text.split(/\r\n|\n|\r/);
    const events: StreamEvent[] = [];
    const last = lines.pop() ?? "";
    for (const line of lines) {
      const event = this.#take(this.#line + line);
      this.#line = "";
      if (event !== null) events.push(event);
    }
    this.#line += last;
    if (this.#line.length > LONGEST_UNITS) throw new RangeError("a line of the stream is too long");
    return events;
  }

  #take(line: string): StreamEvent | null {
    if (line === "") return this.#dispatch();
    if (line.startsWith(":")) return null;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "id" && !value.includes("\0")) this.#id = value;
    if (field === "data") {
      this.#dataUnits += value.length;
      if (this.#dataUnits > LONGEST_UNITS)
        throw new RangeError("an event of the stream is too long");
      this.#data.push(value);
    }
    return null;
  }

  #dispatch(): StreamEvent | null {
    if (this.#data.length === 0) return null;
    const event = { id: this.#id, data: this.#data.join("\n") };
    this.#data = [];
    this.#dataUnits = 0;
    return event;
  }
}
