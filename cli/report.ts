/**
 * Owns what a command says, and where: results on stdout, everything else on stderr.
 *
 * 1. With `--json` stdout carries exactly one JSON document, whatever happens: the result, or
 *    `{"error": …}`. Messages for people stay on stderr.
 * 2. Nothing of another machine's text reaches a terminal unescaped.
 */
import { CallError } from "../client/errors.ts";
import { HostAgentCallError } from "../client/host-agent/errors.ts";
import { LemonError } from "../protocol/errors.ts";
import { connectAdvice } from "./connect-advice.ts";
import { exitCodeOf, UsageError } from "./exit.ts";
import { printable } from "./printable.ts";
import type { Shell } from "./shell.ts";

/** What a failure's document says beyond the error itself: the ids and the command that settles it. */
export interface FailureContext {
  readonly processId?: string;
  readonly nodeId?: string;
  readonly operationId?: string;
  readonly deviceId?: string;
  readonly settle?: string;
}

/** In characters; the sentence of an uncertain call holds two ids of up to 128. */
const LONGEST_SENTENCE = 2_000;

export class Report {
  readonly json: boolean;
  readonly #shell: Shell;

  constructor(shell: Shell, json: boolean) {
    this.#shell = shell;
    this.json = json;
  }

  /** The result: `document` with `--json`, else the text. */
  async result(document: unknown, text: () => string): Promise<void> {
    await this.#shell.stdout.write(this.json ? `${jsonText(document)}\n` : text());
  }

  /** One line for a person. What is quoted in it must be `printable` already. */
  async message(line: string): Promise<void> {
    await this.#shell.stderr.write(`lemon: ${line}\n`);
  }

  /** Tells a failure and answers the exit code that goes with it. */
  async failure(error: unknown, context: FailureContext = {}): Promise<number> {
    const exitCode = exitCodeOf(error);
    await this.message(printable(sentenceOf(error), LONGEST_SENTENCE));
    if (error instanceof UsageError && error.hint !== null) await this.message(error.hint);
    if (this.json) {
      const document = { error: { ...documentOf(error), exitCode, ...context } };
      await this.#shell.stdout.write(`${jsonText(document)}\n`);
    }
    return exitCode;
  }
}

/** The same JSON for a parser, and without what could drive a terminal that it is printed on. */
function jsonText(document: unknown): string {
  return JSON.stringify(document).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    [...Array(character.length).keys()]
      .map((unit) => `\\u${character.charCodeAt(unit).toString(16).padStart(4, "0")}`)
      .join(""),
  );
}

function sentenceOf(error: unknown): string {
  if (error instanceof LemonError) {
    const advice = connectAdvice(error);
    return advice === null ? error.message : `${error.message}; ${advice}`;
  }
  if (error instanceof HostAgentCallError) return error.message;
  return error instanceof Error ? `unexpected failure: ${error.message}` : "unexpected failure";
}

function documentOf(error: unknown): Readonly<Record<string, unknown>> {
  if (error instanceof HostAgentCallError) {
    const { code, message, status, retrySafe, mutationMayHaveApplied } = error;
    return { code, message, status, retrySafe, mutationMayHaveApplied };
  }
  if (!(error instanceof LemonError))
    return { code: "internal_error", message: sentenceOf(error), retrySafe: false };
  return {
    code: error instanceof CallError ? error.classification : error.code,
    message: error.message,
    wireCode: error.wire,
    retrySafe: error.retrySafe,
    mutationMayHaveApplied: error.mutationMayHaveApplied,
    details: error.details,
  };
}
