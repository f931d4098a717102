/** Owns a spawner without processes: a test says when each ends, and how. */
import type { Exit } from "../../host/native/wait.ts";
import type { NativeProcess, OutputSink, Spawner, SpawnSpec } from "../../host/spawner.ts";
import { LemonError } from "../../protocol/errors.ts";

export class FakeProcess implements NativeProcess {
  readonly pid = 0;
  readonly argv: readonly string[];
  readonly exited: Promise<Exit>;
  readonly #exit = Promise.withResolvers<Exit>();
  readonly #sink: OutputSink;
  #over = false;

  constructor(argv: readonly string[], sink: OutputSink) {
    this.argv = argv;
    this.#sink = sink;
    this.exited = this.#exit.promise;
  }

  get over(): boolean {
    return this.#over;
  }

  end(exit: Exit): void {
    if (this.#over) return;
    this.#over = true;
    this.#sink.end("stdout");
    this.#sink.end("stderr");
    this.#exit.resolve(exit);
  }

  async stop(): Promise<void> {
    this.end({ code: null, signal: 9 });
  }

  async clear(): Promise<boolean> {
    return true;
  }

  release(): void {}
}

export class FakeSpawner implements Spawner {
  readonly started: FakeProcess[] = [];
  /** Programs of these names can not be started. */
  readonly missing = new Set<string>();

  prepare(): void {}

  async start(spec: SpawnSpec, sink: OutputSink): Promise<NativeProcess> {
    if (this.missing.has(spec.executable)) throw new LemonError("executable_not_found");
    const process = new FakeProcess(spec.argv, sink);
    this.started.push(process);
    return process;
  }

  async close(): Promise<void> {}
}
