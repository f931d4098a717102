import { closeSync, constants, openSync } from "node:fs";
import { constants as system } from "node:os";
import { expect } from "chai";
import { Execution, type ExecutionSpec } from "../../../actors/process-run/execution.ts";
import { type Clock, systemClock } from "../../../host/clock.ts";
import { isAlive } from "../../../host/process-identity.ts";
import { readProcessRow } from "../../../host/process-table.ts";
import type {
  NativeProcess,
  OutputSink,
  Spawner,
  SpawnSpec,
  SystemSpawner,
} from "../../../host/spawner.ts";
import { LemonError } from "../../../protocol/errors.ts";
import { openDescriptors } from "../../support/descriptors.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { identityOf, MODES, PATH, shell, spawnerOf } from "../../support/native-run.ts";
import { refusalOf } from "../../support/refusal.ts";

const MIB = 1_048_576;

for (const mode of MODES) {
  describe(`an execution (${mode})`, () => {
    let spawner: SystemSpawner;
    let root: number;
    let ear: Ear;
    beforeEach(() => {
      ear = new Ear(spawner);
    });
    before(() => {
      spawner = spawnerOf(mode);
      root = openSync("/", constants.O_RDONLY | constants.O_DIRECTORY);
    });
    after(async () => {
      await spawner.close();
      closeSync(root);
    });

    function start(
      argv: readonly string[],
      changes: Partial<ExecutionSpec> = {},
      clock: Clock = systemClock,
    ): Promise<Execution> {
      const spec = {
        executable: argv[0] ?? "",
        argv,
        environment: { PATH },
        directory: root,
        stdin: Buffer.alloc(0),
        timeoutMs: 60_000,
        maxOutputBytes: MIB,
        ...changes,
      };
      return Execution.start(ear, spec, clock);
    }

    it("tells the exit, both outputs, and that they are whole", async () => {
      const { ended } = await start(shell("echo out; echo err >&2; exit 3"));
      const { stdout, stderr, ...rest } = await ended;
      expect(String(Buffer.from(stdout))).to.equal("out\n");
      expect(String(Buffer.from(stderr))).to.equal("err\n");
      expect(rest).to.deep.equal({
        cause: "exited",
        exitCode: 3,
        outputTruncated: false,
        leftBehind: false,
      });
    });

    it("tells a death by signal as a shell does, also by the signal that a stop would send", async () => {
      for (const name of ["SIGSEGV", "SIGTERM", "SIGKILL"] as const) {
        const { ended } = await start(shell(`ulimit -c 0; kill -${system.signals[name]} $$`));
        expect(await ended).to.include({ cause: "exited", exitCode: 128 + system.signals[name] });
      }
    });

    it("keeps exactly the bound, and stops what writes one byte more", async () => {
      const whole = await (
        await start(shell("printf 12345; printf 67890 >&2"), { maxOutputBytes: 10 })
      ).ended;
      expect(whole).to.include({ cause: "exited", exitCode: 0, outputTruncated: false });
      const cut = await (
        await start(shell("printf 12345; printf 678901 >&2"), { maxOutputBytes: 10 })
      ).ended;
      expect(cut).to.include({ cause: "overflow", outputTruncated: true });
      expect(cut.exitCode).to.be.oneOf([null, 137]);
      expect(cut.stdout.length + cut.stderr.length).to.equal(10);
    });

    it("tells no exit that a program made by itself after it wrote too much: 0 would read as success", async () => {
      for (const script of ["printf ab", "printf ab; exit 7", "printf ab; kill -TERM $$"]) {
        const execution = await start(shell(script), { maxOutputBytes: 1 });
        const end = await execution.ended;
        // Whether it was quicker to exit than we to read is chance.
        expect(end).to.include({ cause: "overflow", outputTruncated: true });
        expect(end.exitCode).to.be.oneOf([null, 137]);
      }
    });

    it("keeps the head of a flood, and ends it", async () => {
      const { ended } = await start(shell("exec yes abcdefghi"), { maxOutputBytes: MIB });
      const end = await ended;
      expect(end).to.include({ cause: "overflow", exitCode: 137, outputTruncated: true });
      expect(end.stdout.length).to.equal(MIB);
      expect(String(Buffer.from(end.stdout))).to.equal(
        "abcdefghi\n".repeat(MIB / 10 + 1).slice(0, MIB),
      );
    });

    it("ends a flood of both streams, of a program that ignores what asks it to end", async () => {
      const { ended } = await start(shell("trap '' TERM INT HUP PIPE; yes out & yes err >&2"), {
        maxOutputBytes: 1_000,
      });
      const end = await ended;
      expect(end).to.include({ cause: "overflow", exitCode: 137, outputTruncated: true });
      expect(end.stdout.length + end.stderr.length).to.equal(1_000);
    });

    it("is stopped when its time is over, and keeps what it wrote until then", async () => {
      const clock = new FakeClock();
      const execution = await start(
        shell("echo started; exec sleep 600"),
        { timeoutMs: 1_000 },
        clock,
      );
      await clock.advance(999);
      let over = false;
      void execution.ended.then(() => {
        over = true;
      });
      await clock.advance(0);
      expect(over).to.equal(false);
      await clock.advance(1);
      const end = await execution.ended;
      expect(end).to.include({ cause: "timeout", exitCode: 137, outputTruncated: false });
      expect(clock.pending).to.equal(0);
    });

    it("is stopped by a cancel, with all its descendants", async () => {
      const execution = await start(shell("(setsid sleep 600 & echo $!); exec sleep 600"));
      const detached = identityOf(await ear.firstLine);
      execution.cancel();
      execution.cancel();
      expect(await execution.ended).to.include({
        cause: "cancel",
        exitCode: 137,
        leftBehind: false,
      });
      expect(isAlive(detached)).to.equal(false);
    });

    it("that ended by itself before the cancel reached it has completed", async () => {
      const execution = await start(shell("exit 7"));
      // Blocks this thread, so that nobody here has heard of the exit when the cancel comes.
      const hasExited = () => readProcessRow(ear.pid)?.state === "Z";
      while (!hasExited()) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      execution.cancel();
      expect(await execution.ended).to.include({ cause: "exited", exitCode: 7 });
    });

    it("lets what still holds its streams speak until it is silent, then ends it", async () => {
      const script = "(sleep 0.02; echo late; exec sleep 600) & echo $!; exit 0";
      const { ended } = await start(shell(script));
      const end = await ended;
      expect(end).to.include({
        cause: "exited",
        exitCode: 0,
        outputTruncated: false,
        leftBehind: false,
      });
      const [pid, late] = String(Buffer.from(end.stdout)).trim().split("\n");
      expect(late).to.equal("late");
      expect(() => identityOf(pid ?? "")).to.throw();
    });

    it("is not held up by what keeps speaking beyond its time", async () => {
      const script = "(while :; do echo x; sleep 0.01; done) & exit 0";
      const { ended } = await start(shell(script), { timeoutMs: 1_000 });
      expect(await ended).to.include({ cause: "exited", exitCode: 0, leftBehind: false });
    });

    it("ends a descendant that floods after the exit", async () => {
      const { ended } = await start(shell("(sleep 0.02; exec yes) & exit 0"), {
        maxOutputBytes: 5_000,
      });
      const end = await ended;
      expect(end).to.include({ cause: "overflow", exitCode: null, outputTruncated: true });
      expect(end.stdout.length).to.equal(5_000);
    });

    it("leaves no descriptor behind, whatever became of it", async () => {
      const descriptors = openDescriptors();
      for (const script of ["exit 0", "yes", "sleep 600", "sleep 600 & exit 0"]) {
        const execution = await start(shell(script), {
          maxOutputBytes: 100,
          stdin: Buffer.alloc(MIB),
        });
        if (script === "sleep 600") execution.cancel();
        await execution.ended;
      }
      await new Promise((resolve) => setImmediate(resolve));
      expect(openDescriptors()).to.be.at.most(descriptors);
    });
  });
}

/** Overhears what a real spawner starts. */
class Ear implements Spawner {
  pid = 0;
  readonly #spawner: Spawner;
  readonly #firstLine = Promise.withResolvers<string>();

  constructor(spawner: Spawner) {
    this.#spawner = spawner;
  }

  /** Of stdout; it must come in one piece. */
  get firstLine(): Promise<string> {
    return this.#firstLine.promise;
  }

  prepare(): void {}

  async start(spec: SpawnSpec, sink: OutputSink): Promise<NativeProcess> {
    const process = await this.#spawner.start(spec, {
      chunk: (stream, bytes) => {
        sink.chunk(stream, bytes);
        if (stream === "stdout") this.#firstLine.resolve(String(Buffer.from(bytes)).trim());
      },
      end: (stream) => sink.end(stream),
    });
    this.pid = process.pid;
    return process;
  }

  async close(): Promise<void> {}
}

class StuckSpawner implements Spawner {
  released = 0;
  readonly #stop: () => Promise<void>;
  constructor(stop: () => Promise<void>) {
    this.#stop = stop;
  }
  prepare(): void {}
  async start(): Promise<NativeProcess> {
    return {
      pid: 1,
      exited: new Promise(() => {}),
      stop: this.#stop,
      clear: async () => true,
      release: () => {
        this.released += 1;
      },
    };
  }
  async close(): Promise<void> {}
}

const SPEC: ExecutionSpec = {
  executable: "/x",
  argv: ["x"],
  environment: {},
  directory: 0,
  stdin: Buffer.alloc(0),
  timeoutMs: 1_000,
  maxOutputBytes: 1,
};

describe("an execution that can not be ended", () => {
  it("is an error when the system refuses the signal, and lets go of its descriptors", async () => {
    const spawner = new StuckSpawner(() => Promise.reject(new LemonError("process_stop_failed")));
    const clock = new FakeClock();
    const execution = await Execution.start(spawner, SPEC, clock);
    execution.cancel();
    expect((await refusalOf(() => execution.ended)).code).to.equal("process_stop_failed");
    expect(spawner.released).to.equal(1);
    expect(clock.pending).to.equal(0);
  });

  it("is told as stopped without an exit when it was killed and does not die", async () => {
    const spawner = new StuckSpawner(() => Promise.resolve());
    const clock = new FakeClock();
    const execution = await Execution.start(spawner, SPEC, clock);
    await clock.advance(1_000 + 1_499);
    expect(spawner.released).to.equal(0);
    await clock.advance(1);
    expect(await execution.ended).to.deep.include({
      cause: "timeout",
      exitCode: null,
      outputTruncated: true,
      leftBehind: true,
    });
    expect(spawner.released).to.equal(1);
    expect(clock.pending).to.equal(0);
  });
});
