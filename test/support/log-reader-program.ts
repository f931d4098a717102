/**
 * Program: a brain that follows a job's log, and writes the id of each frame as soon as it has it.
 * `node log-reader-program.ts SOCKET JOB [AFTER]`
 */
import { writeSync } from "node:fs";
import { HostAgent } from "../../client/host-agent/index.ts";

const [, , socketPath = "", id = "", after] = process.argv;
const host = new HostAgent({ socketPath });
const frames = host.stream("jobLog", { params: { id } }, after === undefined ? {} : { after });
for await (const frame of frames) {
  writeSync(1, `${"lost" in frame.data ? "lost" : frame.id}\n`);
}
host.close();
