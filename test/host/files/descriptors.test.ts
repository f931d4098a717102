import { spawnSync } from "node:child_process";
import { expect } from "chai";
import { tempFolder } from "../../support/temp-folder.ts";

const PROGRAM = `
  const { readdirSync } = await import("node:fs");
  const { filesRoom } = await import("./test/support/files-room.ts");
  const room = filesRoom(undefined, process.argv[1]);
  const open = () => readdirSync("/proc/self/fd").length;
  const before = open();
  const told = (path) => {
    try { return room.files.mkdir({ path }).path.length > 0 ? "made" : "odd"; } catch (failure) { return failure.code; }
  };
  console.log(told("short/path"), told("d/".repeat(200)), told("short/er"), open() - before);
  // Deeper with every step, from a descriptor that is open already, until none is left to walk with.
  let deep = "e", last = "";
  for (let n = 0; n < 100; n += 1, deep += "/e") last = told(deep);
  console.log(last, told("short/est"), open() - before, readdirSync(room.home).join());
  process.exit(0);`;

describe("a path that is deeper than there are descriptors", () => {
  it("is filesystem_busy, leaves none open and nothing made, and the next is served", () => {
    using folder = tempFolder();
    // Node itself needs about twenty.
    const { stdout, stderr } = spawnSync(
      "sh",
      [
        "-c",
        'ulimit -n 64 && exec "$@"',
        "sh",
        process.execPath,
        "--input-type=module",
        "-e",
        PROGRAM,
        folder.path,
      ],
      { encoding: "utf8" },
    );
    expect(stderr).to.equal("");
    expect(stdout).to.equal("made filesystem_busy made 0\nfilesystem_busy made 0 .lemon,e,short\n");
  });
});
