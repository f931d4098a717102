/**
 * Owns what an interrupt means while a run goes on: cancel it, leave it, or keep waiting.
 *
 * 1. No signal ends the command without the user having the id and the command that asks again.
 * 2. Nothing is cancelled but by the user's word: an answer to the question, or `--on-interrupt cancel`.
 * 3. A second interrupt detaches, whatever the first one is at.
 */
import type { Shell, Terminal } from "../shell.ts";

export const INTERRUPT_POLICIES = ["ask", "cancel", "detach"] as const;
export type InterruptPolicy = (typeof INTERRUPT_POLICIES)[number];

export interface InterruptHandlers {
  /** Lines that say what is going on, before the question. */
  readonly question: string;
  readonly cancel: () => void;
  readonly detach: () => void;
}

/** Listens to the signals of the shell until `stop`. */
export class Interrupts {
  readonly #shell: Shell;
  readonly #policy: InterruptPolicy;
  readonly #handlers: InterruptHandlers;
  readonly #release: readonly (() => void)[];
  #asking: AbortController | null = null;
  #cancelling = false;

  constructor(shell: Shell, policy: InterruptPolicy, handlers: InterruptHandlers) {
    this.#shell = shell;
    this.#policy = policy;
    this.#handlers = handlers;
    this.#release = [
      shell.onSignal("SIGINT", () => this.#interrupted(true)),
      shell.onSignal("SIGTERM", () => this.#interrupted(false)),
      shell.onSignal("SIGHUP", () => this.#detach()),
    ];
  }

  /** Gives the signals back and takes an open question off the terminal. */
  stop(): void {
    for (const release of this.#release) release();
    this.#asking?.abort();
  }

  #interrupted(fromKeyboard: boolean): void {
    if (this.#asking !== null || this.#cancelling) this.#detach();
    else if (this.#policy === "cancel") this.#cancel();
    else if (this.#policy === "ask" && fromKeyboard) void this.#ask();
    else this.#detach();
  }

  #cancel(): void {
    this.#cancelling = true;
    this.#handlers.cancel();
  }

  #detach(): void {
    this.#asking?.abort();
    this.#handlers.detach();
  }

  async #ask(): Promise<void> {
    const terminal = this.#shell.openTerminal();
    if (terminal === null) {
      this.#detach();
      return;
    }
    const asking = new AbortController();
    this.#asking = asking;
    // Whatever is said over the open question begins on a line of its own.
    asking.signal.addEventListener("abort", () => terminal.write("\n"), { once: true });
    try {
      const answer = await decide(terminal, this.#handlers.question, asking.signal);
      this.#asking = null;
      // Once aborted the matter was decided elsewhere: by a second interrupt, or by the run's end.
      if (asking.signal.aborted || answer === "continue") return;
      if (answer === "cancel") this.#cancel();
      else this.#detach();
    } finally {
      terminal.close();
    }
  }
}

const CHOICES = "  c      cancel it\n  d      detach: leave it running\n  Enter  keep waiting\n";

/** Asks until the answer is one of the three; a terminal that is gone detaches. */
async function decide(
  terminal: Terminal,
  question: string,
  signal: AbortSignal,
): Promise<"cancel" | "detach" | "continue"> {
  terminal.write(`\n${question}\n${CHOICES}`);
  for (;;) {
    terminal.write("> ");
    const line = await terminal.readLine(signal);
    if (line === null) return "detach";
    const answer = line.trim().toLowerCase();
    if (answer === "c" || answer === "cancel") return "cancel";
    if (answer === "d" || answer === "detach") return "detach";
    if (answer === "") return "continue";
    terminal.write("c, d or Enter\n");
  }
}
