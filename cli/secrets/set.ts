/**
 * Owns `lemon secrets set`: the value comes from a prompt or from standard input, never from the command line, and
 * is sent once. A lost answer is told with the command that reads its proof.
 */

import { isUtf8 } from "node:buffer";
import { randomUUID } from "node:crypto";
import { forbidCores } from "../../host/native/core-limit.ts";
import { LemonError } from "../../protocol/errors.ts";
import { SECRET_BOUNDS } from "../../protocol/secrets.ts";
import { readWhole } from "../bounded-read.ts";
import { withController } from "../dial.ts";
import { EXIT, UsageError } from "../exit.ts";
import { selectNode } from "../node/select.ts";
import { printable, shellWord } from "../printable.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import type { TargetFlags } from "../target.ts";

export interface SetFlags extends TargetFlags {
  readonly id?: string;
  readonly exact?: boolean;
}

/** Nothing was sent: the value keeps to its own bound, and the request that holds it does not to the controller's. */
const ESCAPED =
  "Nothing was set: the value is full of control characters, which JSON writes as six bytes each, and so does not fit a request; set it in base64 and decode it where it is used";
const LINE_END = /\r?\n$/;
const LINE_END_BYTES = 2;

export function secretsSet(
  shell: Shell,
  report: Report,
  flags: SetFlags,
  selector: string,
  name: string,
): Promise<number> {
  return withController(shell, report, flags, async (client, { suffix }) => {
    const { nodeId, ...node } = await selectNode(client, selector);
    const value = await readValue(shell, flags.exact === true);
    const operationId = flags.id ?? `cli:${randomUUID()}`;
    try {
      const document = await client.call("node.secrets.set", { nodeId, name, value, operationId });
      await report.result(
        { nodeId, ...document },
        () => `${printable(document.name)}: set on ${printable(node.name)} as ${operationId}\n`,
      );
      return EXIT.ok;
    } catch (error) {
      if (error instanceof LemonError && error.code === "too_large" && isEscaped(value)) {
        throw new LemonError("too_large", { message: ESCAPED, cause: error });
      }
      if (!(error instanceof LemonError) || !error.mutationMayHaveApplied) throw error;
      const words = `${shellWord(nodeId)} ${shellWord(operationId)}`;
      const settle = `${shell.lemon} secrets receipt ${words}${suffix}`;
      const exitCode = await report.failure(error, { nodeId, operationId, settle });
      await report.message(`see what became of it with: ${settle}`);
      return exitCode;
    }
  });
}

function isEscaped(value: string): boolean {
  return JSON.stringify(value).length > SECRET_BOUNDS.valueBytes * 2;
}

async function readValue(shell: Shell, exact: boolean): Promise<string> {
  // From here on there is something in memory that no crash may leave behind.
  forbidCores();
  return shell.stdinIsTerminal ? await askedFor(shell) : await readFrom(shell, exact);
}

async function askedFor(shell: Shell): Promise<string> {
  const terminal = shell.openTerminal();
  if (terminal === null) throw new UsageError("There is no terminal to ask for the value on");
  const given = new AbortController();
  try {
    const value = await terminal.readHidden("Value (not shown): ", given.signal);
    terminal.write("\n");
    if (value === null || value === "") throw new UsageError("No value was given");
    return value;
  } finally {
    terminal.close();
  }
}

async function readFrom(shell: Shell, exact: boolean): Promise<string> {
  const bytes = await readWhole(
    "the value",
    shell.stdin,
    SECRET_BOUNDS.valueBytes + LINE_END_BYTES,
  );
  try {
    if (!isUtf8(bytes)) throw new UsageError("The value must be UTF-8 text");
    const text = bytes.toString("utf8");
    const value = exact ? text : text.replace(LINE_END, "");
    if (value === "") throw new UsageError("No value was given on standard input");
    return value;
  } finally {
    bytes.fill(0);
  }
}
