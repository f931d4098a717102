/** The far side of `measured-door.ts`: serves the test gateway, and says what it takes of memory. */
import { readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { testGateway } from "./gateway.ts";

const MIB = 1_048_576;
/** What came from a node meanwhile: another one each time, as bytes that become base64. */
const chunk = (): string => Buffer.alloc(MIB, "x").toString("base64");
const gateway = await testGateway({
  ...JSON.parse(process.argv[2] ?? "{}"),
  handlers: {
    // An answer of one mebibyte.
    "node.pair.list": () => ({ requests: [], summary: { pad: "x".repeat(MIB) } }),
    // Answers of a mebibyte in base64, that all requests have under way together.
    "node.fs.read": async ({ path, offset, length }) => {
      await setImmediate();
      const mime = "application/octet-stream";
      return { path, offset, length, size: length, eof: true, mime, dataBase64: chunk() };
    },
    "node.process.cancel": async ({ nodeId, processId }) => {
      await setImmediate();
      return {
        nodeId,
        processId,
        state: "cancelled",
        exitCode: null,
        stdoutBase64: chunk(),
        stderrBase64: "",
        outputTruncated: false,
      };
    },
  },
});

/**
 * The most that was ever resident of this very program (proc(5)). What getrusage(2) tells begins with the
 * peak of whoever started it.
 */
function peakBytes(): number {
  if (process.platform !== "linux") return process.resourceUsage().maxRSS * 1_024;
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "latin1")) ?? [];
  if (kib === undefined) throw new Error("the system tells no peak");
  return Number(kib) * 1_024;
}

process.on("message", () => {
  globalThis.gc?.();
  process.send?.({
    peakBytes: peakBytes(),
    residentBytes: process.memoryUsage.rss(),
    connections: gateway.connections(),
    sessions: gateway.roster.counts().active,
  });
});
process.send?.({ port: gateway.port });
process.once("disconnect", () => process.exit());
