/**
 * Owns the judgement of a crash run: from everything that was asked, everything that was answered and
 * what the commands themselves wrote, it lists each broken promise. Pure, so that it can be tested.
 *
 * 1. No id ran twice.
 * 2. What ran has a receipt, for ever.
 * 3. `not_found` never follows an acknowledgement.
 * 4. A receipt never goes backwards, and a final one never changes.
 * 5. A tombstoned id never ran.
 * 6. An exit code is one that the command really had.
 * 7. Once all is healed, nothing is `running`.
 */

export interface Answer {
  readonly state: string;
  readonly exitCode: number | null;
}

/** One call of the history. Times are of one monotonic clock. */
export interface Call {
  readonly operation: "run" | "get" | "cancel";
  readonly id: string;
  readonly sentAt: number;
  /** Null when the call never ended, or ended with an error: nothing is known from it. */
  readonly answer: (Answer & { readonly receivedAt: number }) | null;
}

/** What a command wrote about itself: one line when it began, one just before it exited by itself. */
export interface LedgerLine {
  readonly id: string;
  readonly event: "began" | "exits";
}

export interface Observed {
  readonly calls: readonly Call[];
  readonly ledger: readonly LedgerLine[];
  /** Strict reads after everything was healed. */
  readonly finals: ReadonlyMap<string, Answer>;
  /** The code each id's command exits with when nothing stops it. */
  readonly expectedExit: (id: string) => number;
}

export interface Violation {
  readonly promise: 1 | 2 | 3 | 4 | 5 | 6 | 7;
  readonly id: string;
  readonly what: string;
}

const FINAL = new Set(["completed", "cancelled", "outcome_unknown"]);

export function check(observed: Observed): Violation[] {
  const began = countById(observed.ledger, "began");
  const exits = countById(observed.ledger, "exits");
  const ids = new Set([
    ...observed.calls.map((call) => call.id),
    ...began.keys(),
    ...observed.finals.keys(),
  ]);
  const callsById = Map.groupBy(observed.calls, (call) => call.id);
  return [...ids].flatMap((id) => {
    const runs = { began: began.get(id) ?? 0, exits: exits.get(id) ?? 0 };
    return checkId(
      id,
      callsById.get(id) ?? [],
      runs,
      observed.finals.get(id),
      observed.expectedExit(id),
    );
  });
}

function countById(ledger: readonly LedgerLine[], event: LedgerLine["event"]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const line of ledger)
    if (line.event === event) counts.set(line.id, (counts.get(line.id) ?? 0) + 1);
  return counts;
}

function checkId(
  id: string,
  calls: readonly Call[],
  runs: { readonly began: number; readonly exits: number },
  final: Answer | undefined,
  expectedExit: number,
): Violation[] {
  const violations: Violation[] = [];
  const broken = (promise: Violation["promise"], what: string) =>
    violations.push({ promise, id, what });

  if (runs.began > 1) broken(1, `began ${runs.began} times`);
  if (final === undefined) {
    broken(2, "was never read back");
    return violations;
  }
  if (runs.began > 0 && final.state === "not_found") broken(2, "ran, and has no receipt");
  if (final.state === "running") broken(7, "still reads running");

  const answered = calls
    .flatMap((call) => (call.answer === null ? [] : [{ ...call, answer: call.answer }]))
    .concat({
      operation: "get",
      id,
      sentAt: Number.POSITIVE_INFINITY,
      answer: { ...final, receivedAt: Number.POSITIVE_INFINITY },
    });
  for (const earlier of answered) {
    if (earlier.answer.state === "not_found") continue;
    // Only a call sent after this acknowledgement arrived has to know of it.
    for (const later of answered.filter((call) => call.sentAt > earlier.answer.receivedAt)) {
      if (later.answer.state === "not_found")
        broken(3, `${later.operation} read not_found after ${earlier.answer.state}`);
      else if (FINAL.has(earlier.answer.state) && !sameAnswer(earlier.answer, later.answer)) {
        broken(4, `${shown(earlier.answer)} became ${shown(later.answer)}`);
      }
    }
  }

  const firstRunSentAt = Math.min(
    ...calls.filter((call) => call.operation === "run").map((call) => call.sentAt),
  );
  const tombstoned = answered.some(
    ({ operation, answer }) =>
      operation === "cancel" && answer.state === "cancelled" && answer.receivedAt < firstRunSentAt,
  );
  if (tombstoned && runs.began > 0) broken(5, "was tombstoned, and ran");

  for (const { answer } of answered) {
    if (answer.state === "completed") {
      if (answer.exitCode !== expectedExit)
        broken(6, `completed with ${answer.exitCode}, not ${expectedExit}`);
      if (runs.exits === 0) broken(6, "completed, but its command never came to its exit");
    } else if (answer.state !== "cancelled" && answer.exitCode !== null) {
      broken(6, `${answer.state} carries exit ${answer.exitCode}`);
    }
  }
  return violations;
}

function sameAnswer(a: Answer, b: Answer): boolean {
  return a.state === b.state && a.exitCode === b.exitCode;
}

function shown(answer: Answer): string {
  return answer.exitCode === null ? answer.state : `${answer.state} (${answer.exitCode})`;
}
