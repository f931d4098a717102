/** Owns the doctor's look at what controllers left on this machine: records, tokens, the port. */
import { readdir } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { readSecureFile } from "../../host/secure-file.ts";
import { LemonError } from "../../protocol/errors.ts";
import { controllerRecordUrl, readControllerRecords } from "../controller-record.ts";
import { openness } from "../handed-files.ts";
import { type Finding, fail, ok, warn } from "./check.ts";

/** One finding for the records together, one for each token file that can not be used and each key that others may read. */
export async function checkRunFolder(home: string): Promise<readonly Finding[]> {
  const found = await readControllerRecords(home);
  const faults = found.flatMap((entry) => ("fault" in entry ? [entry] : []));
  const running = found.flatMap((entry) => ("record" in entry ? [entry.record] : []));
  const findings: Finding[] = [
    running.length === 0
      ? ok("controllers here", "none runs")
      : ok("controllers here", running.map(controllerRecordUrl).join(", ")),
  ];
  for (const { name, fault } of faults) {
    if (fault === "stale")
      findings.push(
        warn(
          `run/${name}`,
          "its controller was killed",
          "nothing: the next start on that port replaces it; or remove it",
        ),
      );
    else
      findings.push(
        fail(
          `run/${name}`,
          fault === "foreign" ? "is not a private file of this account" : "can not be read",
          "remove it",
        ),
      );
  }
  for (const { port, handedFiles = [] } of running) {
    for (const file of handedFiles) {
      const open = await openness(file);
      if (open === null) continue;
      findings.push(warn(`keys of the controller at port ${port}`, open, `chmod 600 ${file.path}`));
    }
  }
  return [...findings, ...(await checkTokens(home))];
}

async function checkTokens(home: string): Promise<readonly Finding[]> {
  const folder = join(home, "run");
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith(".token"));
  const findings: Finding[] = [];
  for (const name of names) {
    try {
      await readSecureFile(join(folder, name));
    } catch (error) {
      if (!(error instanceof LemonError)) throw error;
      const reason = String(error.details["reason"] ?? error.code);
      findings.push(
        fail(
          `run/${name}`,
          `the operator token can not be used (${reason})`,
          "it must be a regular file of this account with mode 0600; chmod 600, or remove it",
        ),
      );
    }
  }
  return findings;
}

/** Whether `lemon up` could listen on its usual port; connects, so it never stands in anybody's way. */
export async function checkPort(home: string, port: number): Promise<Finding> {
  const name = `port ${port}`;
  if (!(await answers(port))) return ok(name, "free");
  const found = await readControllerRecords(home);
  const own = found.some((entry) => "record" in entry && entry.record.port === port);
  return own
    ? ok(name, "served by the controller that runs here")
    : warn(name, "in use by another program", "stop it, or start with --port");
}

const CONNECT_MS = 2_000;

function answers(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host: "127.0.0.1", port, timeout: CONNECT_MS });
  socket.once("connect", () => resolve(true));
  socket.once("timeout", () => resolve(true));
  socket.once("error", () => resolve(false));
  return promise.finally(() => socket.destroy());
}
