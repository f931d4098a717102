/** Owns `lemon host curl`: one request as the user wrote it, and its answer as it comes. */
import { type IncomingMessage, request } from "node:http";
import { LemonError } from "../../protocol/errors.ts";
import { readWhole } from "../bounded-read.ts";
import { EXIT, exitCodeOfStatus, UsageError } from "../exit.ts";
import type { Report } from "../report.ts";
import type { Shell } from "../shell.ts";
import { type HostFlags, socketPath, unconnected } from "./socket.ts";

export interface CurlFlags extends HostFlags {
  readonly method?: string;
  readonly data?: string;
}

const LONGEST_DATA_BYTES = 1_048_576;

export async function hostCurl(
  shell: Shell,
  report: Report,
  flags: CurlFlags,
  path: string,
): Promise<number> {
  if (!/^\/[\x21-\x7e]*$/.test(path)) throw new UsageError("the path starts with / and is ASCII");
  const data =
    flags.data === "-"
      ? await readWhole("--data", shell.stdin, LONGEST_DATA_BYTES)
      : flags.data === undefined
        ? null
        : Buffer.from(flags.data);
  const method = (flags.method ?? (data === null ? "GET" : "POST")).toUpperCase();
  if (!/^[A-Z]{1,16}$/.test(method)) throw new UsageError("--method is a word");
  const stop = new AbortController();
  const giveBack = shell.onSignal("SIGINT", () => stop.abort());
  try {
    const answer = await send(socketPath(shell, flags), method, path, data, stop.signal);
    for await (const chunk of answer) await shell.stdout.write(chunk);
    const { statusCode = 0 } = answer;
    if (statusCode < 400) return EXIT.ok;
    if (!report.json) await report.message(`HTTP ${statusCode}`);
    return exitCodeOfStatus(statusCode, method !== "GET");
  } catch (failure) {
    // To stop looking at a stream is no failure.
    if (stop.signal.aborted) return EXIT.ok;
    throw failure;
  } finally {
    giveBack();
  }
}

function send(
  path: string,
  method: string,
  target: string,
  data: Buffer | null,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const headers = {
    host: "localhost",
    ...(data !== null && { "content-type": "application/json", "content-length": data.length }),
  };
  const sent = request({ socketPath: path, method, path: target, headers, agent: false, signal });
  let connected = false;
  sent.on("socket", (socket) => socket.once("connect", () => (connected = true)));
  sent.on("response", resolve);
  sent.on("error", (cause) => {
    if (!connected) return reject(unconnected(cause));
    const message = "the connection ended before the answer";
    reject(
      new LemonError("unavailable", { message, mutationMayHaveApplied: method !== "GET", cause }),
    );
  });
  sent.end(data ?? undefined);
  return promise;
}
