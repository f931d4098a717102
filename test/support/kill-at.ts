/**
 * Loaded before a program (`--import`): ends its process with SIGKILL just before its n-th change of
 * the disk (`LEMON_KILL_AT`, from 0), so that a test can try every moment at which a kill could come.
 */
import fsp from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";

let left = Number(process.env["LEMON_KILL_AT"]);

/** The same function, which first lets the kill come if it is time. */
function counted<Args extends unknown[], Result>(
  change: (...args: Args) => Result,
): (...args: Args) => Result {
  return function counting(this: unknown, ...args: Args): Result {
    if (left === 0) process.kill(process.pid, "SIGKILL");
    left -= 1;
    return change.apply(this, args);
  };
}

const { mkdir, open, rename, unlink } = fsp;
Object.assign(fsp, {
  mkdir: counted(mkdir),
  rename: counted(rename),
  unlink: counted(unlink),
  open: counted(async (...args: Parameters<typeof open>) => {
    const handle = await open(...args);
    return Object.assign(handle, {
      writeFile: counted(handle.writeFile.bind(handle)),
      sync: counted(handle.sync.bind(handle)),
    });
  }),
});
syncBuiltinESMExports();
