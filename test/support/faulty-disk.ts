/**
 * Owns a real file system that fails or hangs where a test tells it to: `faulty-disk-program.ts`, mounted where
 * everybody sees it, since roots are pinned by their canonical path. It is gone with its program, which ends
 * with the test's process; what hangs in it is answered then.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { tempFolder } from "./temp-folder.ts";

type Fault = `E${string}` | "hang";

export interface FaultyDisk extends AsyncDisposable {
  /** Whoever does something there may hang: nothing is done there by the test's own process. */
  readonly path: string;
  /** What an operation (fuse(4)) on a name answers after so many more; `*` for every name. */
  answer(operation: string, name: string, answer: Fault, after?: number): Promise<void>;
  /** Nothing is wrong with it any more. */
  heal(): Promise<void>;
  /** Resolves when a request hangs. */
  hangs(): Promise<void>;
}

const PROGRAM = fileURLToPath(new URL("./faulty-disk-program.ts", import.meta.url));

/** Null where this account may not mount one. */
export async function faultyDisk(): Promise<FaultyDisk | null> {
  const folder = tempFolder();
  const program = spawn(process.execPath, [PROGRAM, folder.path], {
    stdio: ["pipe", "pipe", "ignore"],
    // A terminal's Ctrl-C is not for it: it has to take its mount away.
    detached: true,
  });
  const exited = once(program, "exit").catch(() => []);
  const heard = new Map<string, (() => void)[]>();
  const word = (said: string): Promise<void> =>
    new Promise((resolve) => heard.set(said, [...(heard.get(said) ?? []), resolve]));
  createInterface({ input: program.stdout }).on("line", (line) => {
    const said = line.split(" ")[0] ?? "";
    heard.get(said)?.shift()?.();
  });
  const ready = await Promise.race([word("ready").then(() => true), exited.then(() => false)]);
  if (!ready) {
    folder[Symbol.dispose]();
    return null;
  }
  const tell = async (what: object): Promise<void> => {
    const told = word("told");
    program.stdin.write(`${JSON.stringify(what)}\n`);
    await told;
  };
  return {
    path: folder.path,
    answer: (operation, name, answer, after = 0) => tell({ operation, name, answer, after }),
    heal: () => tell({}),
    hangs: () => word("hangs"),
    async [Symbol.asyncDispose]() {
      program.stdin.end();
      await exited;
      folder[Symbol.dispose]();
    },
  };
}
