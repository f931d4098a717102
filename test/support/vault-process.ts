/** Owns the vault processes of a test (`vault-worker.ts`): one that serves, and one loaded ahead to follow it. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { z } from "zod";
import type { RecordBench } from "./record-bench.ts";
import type { VaultRequest } from "./vault-worker.ts";

const reply = z.object({
  id: z.int(),
  answer: z.unknown().optional(),
  code: z.string().optional(),
});

/** `died` when the process was gone before it answered. */
export type Outcome =
  | { readonly kind: "answer"; readonly answer: unknown }
  | { readonly kind: "refused"; readonly code: string }
  | { readonly kind: "died" };

export class VaultProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #loaded: Promise<unknown>;
  readonly #exited: Promise<unknown>;
  readonly #waiting = new Map<number, (outcome: Outcome) => void>();
  #serial = 0;

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#loaded = once(child, "message");
    this.#exited = once(child, "exit");
    child.on("message", (message) => {
      const parsed = reply.safeParse(message);
      if (!parsed.success) return;
      const { id, answer, code } = parsed.data;
      this.#waiting.get(id)?.(
        code === undefined ? { kind: "answer", answer } : { kind: "refused", code },
      );
      this.#waiting.delete(id);
    });
    child.once("exit", () => {
      for (const settle of this.#waiting.values()) settle({ kind: "died" });
      this.#waiting.clear();
    });
  }

  static load(bench: RecordBench, sealed: string): VaultProcess {
    const seed = (user: { getSeed(): Uint8Array }) => new TextDecoder().decode(user.getSeed());
    const setting = {
      url: bench.server.child.clientUrl,
      storeSeed: seed(bench.users.store),
      sysSeed: seed(bench.users.sys),
      directory: bench.directory,
      sealed,
    };
    const program = join(import.meta.dirname, "vault-worker.ts");
    const options = {
      serialization: "advanced",
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    } as const;
    return new VaultProcess(
      fork(program, [JSON.stringify(setting)], { ...options, stdio: [...options.stdio] }),
    );
  }

  async open(nowMs: number): Promise<void> {
    await this.#loaded;
    this.#child.send({ open: true, nowMs });
  }

  ask(request: VaultRequest, nowMs: number): Promise<Outcome> {
    this.#serial += 1;
    const id = this.#serial;
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    this.#waiting.set(id, resolve);
    this.#child.send({ id, nowMs, ...request }, (failure) => {
      if (failure !== null) resolve({ kind: "died" });
    });
    return promise;
  }

  /** kill -9 just before the n-th thing it does to the store or the disk. */
  killAt(count: number): void {
    this.#child.send({ killAt: count });
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  /** Ends it in order. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    await this.#exited;
  }
}
