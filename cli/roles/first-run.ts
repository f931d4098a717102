/**
 * Owns the first run a newcomer sees: one fixed process id through the whole chain (`/ws`, NATS, node,
 * exec). The id is spent by the first start; every later one shows its receipt, which is the point.
 */
import { connect } from "../../client/index.ts";
import { socketOpener } from "../../client/node/socket.ts";
import type { ResultOf } from "../../protocol/methods.ts";

const FIRST_RUN_ID = "probe:first-run";
export const FIRST_RUN_ARGV = ["uname", "-a"] as const;
const TIMEOUT_MS = 30_000;
const MAX_OUTPUT_BYTES = 65_536;

export type FirstRun = ResultOf<"node.process.get">;

export interface FirstRunOptions {
  readonly url: string;
  readonly token: string;
  readonly nodeId: string;
  /** What the controller shows; null without TLS. */
  readonly certificate: string | null;
  readonly signal: AbortSignal;
}

/** Reads the receipt first, and runs only what was proven to be absent. Errors: those of the calls. */
export async function firstRun(options: FirstRunOptions): Promise<FirstRun> {
  const { url, token, nodeId, certificate, signal } = options;
  const client = await connect({
    url,
    token,
    clientId: "lemon-first-run",
    openSocket: socketOpener(certificate === null ? {} : { certificate }),
    signal,
  });
  try {
    const known = await client.call(
      "node.process.get",
      { nodeId, processId: FIRST_RUN_ID },
      { signal },
    );
    if (known.state !== "not_found") return known;
    return await client.call(
      "node.process.run",
      {
        nodeId,
        processId: FIRST_RUN_ID,
        cwd: ".",
        argv: [...FIRST_RUN_ARGV],
        stdinBase64: "",
        timeoutMs: TIMEOUT_MS,
        maxOutputBytes: MAX_OUTPUT_BYTES,
      },
      { signal },
    );
  } finally {
    client.close();
  }
}
