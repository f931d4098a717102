/**
 * Owns what a role says in the foreground: for a person on stdout, or one JSON object a line with
 * `--json`; failures on stderr.
 */
import { LemonError } from "../../protocol/errors.ts";
import { LEMON_VERSION } from "../../protocol/version.ts";
import { bytesText, printable, shellWord } from "../printable.ts";
import { LEMON } from "./build.ts";
import { isWildcard } from "./door-warnings.ts";
import { FIRST_RUN_ARGV, type FirstRun } from "./first-run.ts";
import { LOCAL_NODE } from "./home.ts";

export interface Ready {
  /** What is listened on, as `--host` named it. */
  readonly host: string;
  readonly port: number;
  /** Where a command on this machine reaches it. */
  readonly url: string;
  /** Null for a controller without a local node. */
  readonly nodeId: string | null;
  readonly tokenFile: string | null;
}

export interface Joined {
  readonly nodeId: string;
  readonly name: string;
  readonly generation: number;
  readonly controller: string;
}

export interface NamedNode {
  readonly nodeId: string;
  readonly name: string;
}

export class Announcement {
  readonly #json: boolean;

  constructor(json: boolean) {
    this.#json = json;
  }

  ready(ready: Ready): void {
    const { url, tokenFile, nodeId, port } = ready;
    this.#say(
      { event: "ready", version: LEMON_VERSION, port, url, nodeId, tokenFile, pid: process.pid },
      readyLines(ready),
    );
  }

  firstRun(receipt: FirstRun, node: NamedNode): void {
    this.#say({ event: "probe", receipt }, firstRunLines(receipt, node));
  }

  joined(joined: Joined): void {
    this.#say({ event: "joined", version: LEMON_VERSION, ...joined, pid: process.pid }, [
      `lemon ${LEMON_VERSION} serves node ${printable(joined.name)} (${joined.nodeId}) of ${printable(joined.controller)}`,
    ]);
  }

  hostAgentReady(ready: { readonly socket: string; readonly fake: boolean }): void {
    const what = ready.fake ? "a fake host" : "this host";
    this.#say({ event: "ready", version: LEMON_VERSION, ...ready, pid: process.pid }, [
      `lemon ${LEMON_VERSION} serves ${what} on ${printable(ready.socket)}`,
    ]);
  }

  /** Something a person should know that is not an end: free of content, for a log as well. */
  note(text: string): void {
    process.stderr.write(`lemon: ${printable(text, 500)}\n`);
  }

  /** One clear line; answers the exit code. */
  failed(failure: unknown, exitCode: number): number {
    const known = failure instanceof LemonError;
    const message = known ? sentenceOf(failure) : "unexpected failure; see the log above";
    this.note(message);
    if (this.#json) {
      const code = known ? failure.code : "internal_error";
      this.#line({ event: "failed", error: { code, message }, exitCode });
    }
    return exitCode;
  }

  #say(document: Readonly<Record<string, unknown>>, lines: readonly string[]): void {
    if (this.#json) this.#line(document);
    else process.stdout.write(`${lines.join("\n")}\n`);
  }

  #line(document: Readonly<Record<string, unknown>>): void {
    process.stdout.write(`${JSON.stringify(document)}\n`);
  }
}

/** A private file that is refused is never named by its error; here it is clear where it lies. */
function sentenceOf({ code, details, message }: LemonError): string {
  const reason = code === "permission_denied" ? details["reason"] : undefined;
  if (reason === undefined) return message;
  return `${message} (${reason}); below LEMON_HOME all must be this account's own, folders with mode 0700, files with 0600`;
}

/** What a person reads once it serves. */
export function readyLines({ host, port, url, tokenFile, nodeId }: Ready): readonly string[] {
  const place = isWildcard(host)
    ? `every address of this machine, port ${port}; from here it is ${url}`
    : url;
  return [
    `lemon ${LEMON_VERSION} listens on ${place}`,
    `  operator token  ${tokenFile ?? "from LEMON_CONTROL_PLANE_OPERATOR_TOKEN"}`,
    ...(nodeId === null ? [] : [`  local node      ${nodeId}`]),
  ];
}

/** What a newcomer reads of the first run, with commands that can be typed as they stand. */
export function firstRunLines(receipt: FirstRun, { nodeId, name }: NamedNode): readonly string[] {
  const output = receipt.stdoutBase64 === null ? null : Buffer.from(receipt.stdoutBase64, "base64");
  const exit = receipt.exitCode === null ? "" : `, exit ${receipt.exitCode}`;
  return [
    "",
    `${receipt.processId} ran \`${FIRST_RUN_ARGV.join(" ")}\` through /ws, NATS, node and exec; its receipt: ${receipt.state}${exit}`,
    ...(output === null
      ? ["  its output is no longer kept; its id is spent for ever, so it never runs again"]
      : [`  ${printable(output.toString("utf8").trimEnd())}  (${bytesText(output.length)})`]),
    "",
    "Run the next one from another shell:",
    // The name is easier to read, but it can be given to another node.
    `  ${LEMON} process run ${name === LOCAL_NODE ? name : nodeId} -- ${FIRST_RUN_ARGV.map(shellWord).join(" ")}`,
    `  ${LEMON} process get ${nodeId} ${receipt.processId}`,
    "",
    "Ctrl-C stops it.",
  ];
}
