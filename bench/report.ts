/**
 * Owns how a benchmark says what it measured: the median of its samples and its ratio to a yardstick that
 * was measured in the same run, as a table for people and, with `--json`, as one document for machines.
 */
import { availableParallelism } from "node:os";

/** The smallest number that the share `p` (0 to 1) of them does not exceed (nearest rank); NaN for none. */
export function percentile(numbers: readonly number[], p: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const rank = Math.min(sorted.length, Math.max(1, Math.ceil(p * sorted.length)));
  return sorted[rank - 1] ?? Number.NaN;
}

export function median(numbers: readonly number[]): number {
  return percentile(numbers, 0.5);
}

/** What a figure is, said when it is first sampled. */
export interface FigureKind {
  /** `/s`, `µs`, `ms`, `B`, … */
  readonly unit: string;
  /** The figure it is divided by, or several whose medians are added up (one may stand there twice). */
  readonly of?: string | readonly string[];
  /** The ratio that the project promises to stay below, or above. */
  readonly atMost?: number;
  readonly atLeast?: number;
  /** What the figure itself is promised to stay below, where the promise is no ratio. */
  readonly below?: number;
}

/** One line of the report. */
export interface Figure {
  readonly name: string;
  readonly unit: string;
  readonly median: number;
  readonly p99: number;
  readonly samples: number;
  readonly of: string | null;
  readonly ratio: number | null;
  readonly promise: string | null;
  /** Null where nothing is promised. */
  readonly kept: boolean | null;
}

export class Report {
  readonly #bench: string;
  readonly #kinds = new Map<string, FigureKind>();
  readonly #samples = new Map<string, number[]>();

  constructor(bench: string) {
    this.#bench = bench;
  }

  /** Adds a sample to the figure of that name; figures are reported in the order of their first samples. */
  sample(name: string, value: number, kind: FigureKind): void {
    const samples = this.#samples.get(name) ?? [];
    samples.push(value);
    this.#samples.set(name, samples);
    this.#kinds.set(name, kind);
  }

  figures(): Figure[] {
    return Array.from(this.#kinds, ([name, kind]) => this.#figure(name, kind));
  }

  /** Writes to stdout: the table, or JSON when the program was called with `--json`. */
  print(json: boolean = process.argv.includes("--json")): void {
    process.stdout.write(json ? `${JSON.stringify(this, null, 2)}\n` : this.table());
  }

  toJSON(): object {
    return {
      bench: this.#bench,
      node: process.version,
      platform: `${process.platform}-${process.arch}`,
      cores: availableParallelism(),
      figures: this.figures(),
    };
  }

  table(): string {
    const rows = this.figures().map((figure) => [
      figure.name,
      readable(figure.median),
      figure.unit,
      figure.ratio === null ? "" : `${readable(figure.ratio)} × ${figure.of}`,
      figure.promise === null ? "" : `${figure.kept ? "kept" : "BROKEN"}: ${figure.promise}`,
    ]);
    const width = (column: number): number =>
      Math.max(0, ...rows.map((row) => row[column]?.length ?? 0));
    const lines = rows.map(([name = "", value = "", unit = "", ratio = "", promise = ""]) =>
      [
        name.padEnd(width(0)),
        `${value.padStart(width(1))} ${unit.padEnd(width(2))}`,
        ratio.padEnd(width(3)),
        promise,
      ]
        .join("  ")
        .trimEnd(),
    );
    const machine = `Node.js ${process.version}, ${availableParallelism()} cores`;
    return `${[`${this.#bench} (${machine})`, ...lines].join("\n")}\n`;
  }

  #figure(name: string, { unit, of, atMost, atLeast, below }: FigureKind): Figure {
    const samples = this.#samples.get(name) ?? [];
    const yardsticks = of === undefined ? [] : [of].flat();
    const yardstick = yardsticks
      .map((other) => median(this.#samples.get(other) ?? []))
      .reduce((sum, value) => sum + value, 0);
    const ratio = yardsticks.length === 0 ? null : median(samples) / yardstick;
    const bounds = [
      atMost === undefined ? [] : [`at most ${atMost}`],
      atLeast === undefined ? [] : [`at least ${atLeast}`],
    ].flat();
    const keepsRatio =
      ratio === null || bounds.length === 0
        ? null
        : ratio <= (atMost ?? Number.POSITIVE_INFINITY) && ratio >= (atLeast ?? 0);
    const keepsValue = below === undefined ? null : median(samples) < below;
    const said = [
      ...(keepsRatio === null ? [] : bounds),
      ...(below === undefined ? [] : [`below ${readable(below)} ${unit}`]),
    ];
    return {
      name,
      unit,
      median: median(samples),
      p99: percentile(samples, 0.99),
      samples: samples.length,
      of: yardsticks.length === 0 ? null : yardsticks.join(" + "),
      ratio,
      promise: said.length > 0 ? said.join(", ") : null,
      kept: said.length > 0 ? keepsRatio !== false && keepsValue !== false : null,
    };
  }
}

/** Three digits that mean something, thousands set apart. */
function readable(value: number): string {
  const rounded = Math.abs(value) < 100 ? Number(value.toPrecision(3)) : Math.round(value);
  return rounded.toLocaleString("en-US");
}
