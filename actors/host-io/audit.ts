/**
 * Owns the audit of a node's files, processes and secrets: the event `execution node host_io`
 * (node-host-io.md, the end of "Write-only encrypted secrets"). It is telemetry, no durable history.
 *
 * 1. An event is a count, a method's name and an outcome: `done`, or a classification of the error table.
 *    Nothing of a request or an answer gets here.
 * 2. Each call is counted in exactly one line, also at the end of the worker life. A line of its own tells of
 *    one (`count` 1) up to `LINES` in a window; what goes beyond is summed by kind at the window's end, so
 *    that a transfer of many chunks does not push everything else out of the log.
 */
import type { Logger } from "pino";
import type { CancelTimer, Clock } from "../../host/clock.ts";
import { type ErrorCode, LemonError } from "../../protocol/errors.ts";
import type { HostIoCounts } from "../../protocol/methods/nodes.ts";
import type { RpcHandler } from "../../transport/rpc/server.ts";

export type HostIoHandlers = Readonly<
  Record<`node.${"fs" | "process" | "secrets"}.${string}`, RpcHandler>
>;

type Outcome = "done" | ErrorCode;
type Counts = { -readonly [K in keyof HostIoCounts]: HostIoCounts[K] };

interface HostIoEvent {
  readonly method: string;
  readonly outcome: Outcome;
  readonly count: number;
}

export interface HostIoAuditOptions {
  readonly clock: Clock;
  readonly log: Logger;
}

const WINDOW_MS = 10_000;
const LINES = 50;

export class HostIoAudit implements Disposable {
  readonly #options: HostIoAuditOptions;
  /** Bounded by the methods that are served. */
  readonly #counts = new Map<string, Counts>();
  /** What this window sums, by kind. */
  readonly #summed = new Map<string, HostIoEvent>();
  #linesLeft = LINES;
  #endWindow: CancelTimer | null = null;

  constructor(options: HostIoAuditOptions) {
    this.#options = options;
  }

  /** The same handlers; each call is told of when it has its answer. */
  over(handlers: HostIoHandlers): HostIoHandlers {
    return Object.fromEntries(
      Object.entries(handlers).map(([method, handle]) => [method, this.#audited(method, handle)]),
    );
  }

  /** What this worker life has answered so far, by method. */
  counts(): Readonly<Record<string, HostIoCounts>> {
    return Object.fromEntries(this.#counts);
  }

  [Symbol.dispose](): void {
    this.#endWindow?.();
    this.#tellSummed();
  }

  #audited(method: string, handle: RpcHandler): RpcHandler {
    return async (params, context) => {
      try {
        const answer = await handle(params, context);
        this.#tell(method, "done", "done");
        return answer;
      } catch (error) {
        const known = error instanceof LemonError ? error : new LemonError("internal_error");
        this.#tell(method, known.code, known.mutationMayHaveApplied ? "unknown" : "refused");
        throw error;
      }
    };
  }

  #tell(method: string, outcome: Outcome, kind: keyof HostIoCounts): void {
    const counts = this.#counts.get(method) ?? { done: 0, refused: 0, unknown: 0 };
    counts[kind] += 1;
    this.#counts.set(method, counts);
    this.#endWindow ??= this.#options.clock.after(WINDOW_MS, () => this.#tellSummed());
    if (this.#linesLeft > 0) {
      this.#linesLeft -= 1;
      this.#say({ method, outcome, count: 1 });
      return;
    }
    const key = `${method} ${outcome}`;
    const count = (this.#summed.get(key)?.count ?? 0) + 1;
    this.#summed.set(key, { method, outcome, count });
  }

  #tellSummed(): void {
    this.#endWindow = null;
    this.#linesLeft = LINES;
    for (const event of this.#summed.values()) this.#say(event);
    this.#summed.clear();
  }

  #say({ count, method, outcome }: HostIoEvent): void {
    this.#options.log.info({ count, method, outcome }, "execution node host_io");
  }
}
