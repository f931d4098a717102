/** Owns an isolated process for tests: does what it is asked for, bad things too. */
import { readdirSync, readlinkSync } from "node:fs";
import { LemonError } from "../../protocol/errors.ts";
import { serveIsolated } from "../../supervision/isolated-child.ts";

serveIsolated((opening) => {
  if (opening === "refuse") throw new LemonError("not_directory");
  return (request) => {
    switch (request) {
      case "pid":
        return process.pid;
      case "opening":
        return opening;
      case "environment":
        return Object.keys(process.env);
      case "descriptors":
        return readdirSync("/proc/self/fd").flatMap((fd) => {
          try {
            return [readlinkSync(`/proc/self/fd/${fd}`)];
          } catch {
            return [];
          }
        });
      case "cwd":
        return process.cwd();
      case "refuse":
        throw new LemonError("no_space", {
          message: "None",
          retrySafe: false,
          details: { left: 2, name: null },
        });
      case "fail":
        throw new TypeError("a secret path");
      case "hang":
        // As a call of the operating system that never returns: no event is handled meanwhile.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
        return null;
      case "exit":
        return process.exit(3);
      case "nonsense":
        process.send?.({ nothing: "of ours" });
        return null;
      default:
        return request;
    }
  };
});
