import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, renameSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { type FileLock, lockDirectory, lockFile } from "../../host/file-lock.ts";
import { refusalOf } from "../support/refusal.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";

describe("a file lock", () => {
  let folder: TempFolder;
  let path: string;
  const held: FileLock[] = [];
  const children: ChildProcess[] = [];
  beforeEach(() => {
    folder = tempFolder();
    path = join(folder.path, "lock");
  });
  afterEach(() => {
    for (const lock of held.splice(0)) lock.release();
    for (const child of children.splice(0)) child.kill("SIGKILL");
    folder[Symbol.dispose]();
  });

  function take(lock: FileLock | null): FileLock {
    if (lock === null) throw new Error("it is free");
    held.push(lock);
    return lock;
  }

  /** A real process that holds the lock through an inherited descriptor, until it dies. */
  async function holdInChild(lock: FileLock): Promise<ChildProcess> {
    const child = spawn("sh", ["-c", "echo ready; exec sleep 60"], {
      stdio: ["ignore", "pipe", "ignore", lock.fd],
    });
    children.push(child);
    if (child.stdout === null) throw new Error("no stdout");
    await once(child.stdout, "data");
    return child;
  }

  for (const [kind, acquire] of [
    ["file", lockFile],
    ["folder", lockDirectory],
  ] as const) {
    describe(`on a ${kind}`, () => {
      beforeEach(() => {
        if (kind === "folder") mkdirSync(path);
      });

      it("has one holder at a time, and is free again after its release", () => {
        const first = take(acquire(path));
        expect(acquire(path)).to.equal(null);
        first.release();
        first.release();
        take(acquire(path));
      });

      it("handed down to a child is held until the child dies by kill -9, too", async () => {
        const lock = take(acquire(path));
        const child = await holdInChild(lock);
        lock.release();
        expect(acquire(path)).to.equal(null);
        const exit = once(child, "exit");
        child.kill("SIGKILL");
        await exit;
        take(acquire(path));
      });

      it("is of what stands at the path now, not of what was moved away", () => {
        take(acquire(path));
        renameSync(path, `${path}.old`);
        if (kind === "folder") mkdirSync(path);
        take(acquire(path));
        expect(acquire(`${path}.old`)).to.equal(null);
      });
    });
  }

  it("creates its file for this account alone and keeps what is in it", () => {
    take(lockFile(path)).release();
    expect(statSync(path).mode & 0o777).to.equal(0o600);
    writeFileSync(path, "kept");
    take(lockFile(path));
    expect(statSync(path).size).to.equal(4);
  });

  it("refuses what can not be locked", async () => {
    expect((await refusalOf(() => lockFile(join(path, "deeper")))).code).to.equal("not_found");
    expect((await refusalOf(() => lockDirectory(path))).code).to.equal("not_found");
    writeFileSync(path, "");
    expect((await refusalOf(() => lockDirectory(path))).code).to.equal("not_directory");
    symlinkSync(path, `${path}.link`);
    expect((await refusalOf(() => lockFile(`${path}.link`))).code).to.equal("unavailable");
  });
});
