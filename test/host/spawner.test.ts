import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { constants as system } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { native } from "../../host/native/library.ts";
import { closeOthersAtExec } from "../../host/native/spawn.ts";
import { identify, isAlive, waitForEnd } from "../../host/process-identity.ts";
import { readProcessRow } from "../../host/process-table.ts";
import { KILL_AT_ONCE, type SystemSpawner } from "../../host/spawner.ts";
import { openDescriptors } from "../support/descriptors.ts";
import { identityOf, MODES, PATH, run, shell, spawnerOf, start } from "../support/native-run.ts";
import { refusalOf } from "../support/refusal.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";

for (const mode of MODES) {
  describe(`a native process (${mode})`, () => {
    let spawner: SystemSpawner;
    before(() => {
      spawner = spawnerOf(mode);
      expect(spawner.containment).to.equal(mode);
    });
    after(() => spawner.close());

    it("gets its input exactly, then end of file, and is heard exactly", async () => {
      const input = randomBytes(1_048_576);
      const heard = await start(spawner, { argv: ["/bin/cat"], stdin: input });
      expect(await heard.process.exited).to.deep.equal({ code: 0, signal: null });
      await heard.ended;
      heard.process.release();
      expect(heard.bytes("stdout").equals(input)).to.equal(true);
      expect(heard.text("stderr")).to.equal("");
    });

    it("gets end of file at once when there is no input", async () => {
      expect((await run(spawner, { argv: shell("wc -c") })).stdout.trim()).to.equal("0");
    });

    it("has streams that it can open by name", async () => {
      const script = "cat /dev/stdin; echo out >/dev/stdout; echo err >/dev/stderr";
      const ran = await run(spawner, { argv: shell(script), stdin: Buffer.from("in\n") });
      expect(ran).to.deep.include({ stdout: "in\nout\n", stderr: "err\n" });
    });

    it("has no terminal, and leads a session and a group of its own", async () => {
      const { stdout } = await run(spawner, {
        argv: shell("test -t 0 || test -t 1 || test -t 2; echo $?; cat /proc/$$/stat; echo $$"),
      });
      const [terminal, stat = "", pid] = stdout.trim().split("\n");
      expect(terminal).to.equal("1");
      const [, , group, session, tty] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      expect({ group, session, tty }).to.deep.equal({ group: pid, session: pid, tty: "0" });
    });

    it("may leave a megabyte of input unread", async () => {
      const ran = await run(spawner, { argv: shell("exit 3"), stdin: Buffer.alloc(1_048_576) });
      expect(ran.exit).to.deep.equal({ code: 3, signal: null });
    });

    it("tells each exit code", async () => {
      for (let code = 0; code <= 255; code += 1) {
        const { exit } = await run(spawner, { argv: shell(`exit ${code}`) });
        expect(exit).to.deep.equal({ code, signal: null });
      }
    });

    it("tells each deadly signal", async () => {
      const harmless = ["SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH"];
      const stopping = ["SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU"];
      const deadly = Object.entries(system.signals).filter(
        ([name]) => !harmless.includes(name) && !stopping.includes(name),
      );
      expect(deadly.length).to.be.greaterThan(20);
      for (const [name, signal] of deadly) {
        const { exit } = await run(spawner, { argv: shell(`ulimit -c 0; kill -${signal} $$`) });
        expect(exit, name).to.deep.equal({ code: null, signal });
      }
    });

    it("starts with every signal unblocked and at its default", async () => {
      const { stdout } = await run(spawner, { argv: ["/bin/cat", "/proc/self/status"] });
      const mask = (name: string) => {
        const hex = new RegExp(`^${name}:\\s*([0-9a-f]+)$`, "m").exec(stdout)?.[1] ?? "f";
        // Signals 32 and 33 are the C library's own.
        return BigInt(`0x${hex}`) & ~(3n << 31n);
      };
      expect(mask("SigIgn")).to.equal(0n);
      expect(mask("SigBlk")).to.equal(0n);
    });

    it("inherits no descriptor, also none that this process would hand down", async () => {
      const inheritable = native("int dup(int fd)")(1);
      try {
        const { stdout } = await run(spawner, { argv: ["/bin/ls", "/proc/self/fd"] });
        // The fourth is the folder that `ls` reads.
        expect(stdout.trim().split("\n")).to.deep.equal(["0", "1", "2", "3"]);
      } finally {
        closeSync(inheritable);
      }
    });

    it("gets the arguments and the environment literally, and nothing else", async () => {
      const argv = ["zero", "", " a  b ", "\"'`$HOME*;|", "é世界🙂", "-n", "\n"];
      const ran = await run(spawner, {
        executable: "/bin/cat",
        argv: [...argv.slice(0, 1), "/proc/self/cmdline", "/proc/self/environ"],
        environment: { A: "1", B: " x=y ", PATH: "" },
      });
      const own = ran.stdout.split("\0").filter((entry) => !entry.startsWith("LEMON_RUN="));
      expect(own).to.deep.equal([
        "zero",
        "/proc/self/cmdline",
        "/proc/self/environ",
        "A=1",
        "B= x=y ",
        "PATH=",
        "",
      ]);
      const echoed = await run(spawner, {
        argv: shell('for a in "$@"; do printf "%s\\0" "$a"; done', ...argv),
      });
      expect(echoed.stdout.split("\0").slice(0, -1)).to.deep.equal(argv);
    });

    it("takes an argument of 131,071 bytes, and is refused with one of 131,072", async () => {
      const { stdout } = await run(spawner, {
        argv: ["/usr/bin/printf", "%s", "x".repeat(131_071)],
      });
      expect(stdout.length).to.equal(131_071);
      const refusal = await refusalOf(() =>
        start(spawner, { argv: ["/usr/bin/printf", "%s", "x".repeat(131_072)] }),
      );
      expect(refusal.code).to.equal("argument_list_too_long");
    });

    describe("that can not be started", () => {
      let folder: TempFolder;
      beforeEach(() => {
        folder = tempFolder();
      });
      afterEach(() => folder[Symbol.dispose]());

      function file(name: string, content: string, mode: number): string {
        const path = join(folder.path, name);
        writeFileSync(path, content);
        chmodSync(path, mode);
        return path;
      }

      it("is an error that says why, and leaves nothing behind", async () => {
        const plain = file("plain", "#!/bin/sh\n", 0o644);
        const missing = join(folder.path, "missing");
        const descriptors = openDescriptors();
        for (const [path, code] of [
          [missing, "executable_not_found"],
          [join(plain, "below"), "executable_not_found"],
          [file("orphan", `#!${missing}\n`, 0o755), "executable_not_found"],
          [plain, "permission_denied"],
          [folder.path, "permission_denied"],
          [file("nonsense", "\0nonsense", 0o755), "spawn_failed"],
        ] as const) {
          const refusal = await refusalOf(() => start(spawner, { argv: [path] }));
          expect(refusal.code, path).to.equal(code);
          expect(refusal.mutationMayHaveApplied).to.equal(false);
          expect(refusal.message).not.to.contain(folder.path);
        }
        expect(openDescriptors()).to.be.at.most(descriptors);
      });

      it("is refused when a string for the system holds NUL", async () => {
        const refusal = await refusalOf(() => start(spawner, { argv: ["/bin/echo", "a\0b"] }));
        expect(refusal.code).to.equal("invalid_params");
      });
    });

    it("starts in the directory of the descriptor, whatever it is called by then", async () => {
      using folder = tempFolder();
      const path = join(folder.path, "before");
      mkdirSync(path);
      const directory = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
      try {
        renameSync(path, join(folder.path, "after"));
        mkdirSync(path);
        const { stdout } = await run(spawner, { argv: ["/bin/pwd"], directory });
        expect(stdout).to.equal(`${join(folder.path, "after")}\n`);
      } finally {
        closeSync(directory);
      }
    });

    it("leaves no descriptor and no zombie behind", async () => {
      const descriptors = openDescriptors();
      const heard = await start(spawner, { argv: shell("echo $$"), stdin: Buffer.from("x") });
      await heard.process.exited;
      expect(readProcessRow(heard.process.pid)?.state).to.equal("Z");
      await heard.process.clear();
      await heard.ended;
      heard.process.release();
      heard.process.release();
      expect(readProcessRow(heard.process.pid)).to.equal(null);
      await new Promise((resolve) => setImmediate(resolve));
      // A cgroup once made is kept for the next run, with two descriptors.
      expect(openDescriptors()).to.be.at.most(descriptors);
    });

    it("takes what was made ready for it, which is made once, and goes with the spawner unused", async () => {
      const one = spawnerOf(mode);
      const descriptors = openDescriptors();
      one.prepare();
      const ready = openDescriptors();
      expect(ready).to.be.greaterThan(descriptors);
      one.prepare();
      expect(openDescriptors()).to.equal(ready);
      expect((await run(one, { argv: ["cat"], executable: "/bin/cat" })).exit.code).to.equal(0);
      // What others had left open for a moment may be gone meanwhile.
      expect(openDescriptors()).to.be.at.most(descriptors);
      one.prepare();
      const closed = openDescriptors();
      await one.close();
      // The reaper's pipe and the cgroup's own go, too.
      expect(openDescriptors()).to.be.at.most(closed - (ready - descriptors));
    });

    describe("with descendants", () => {
      /** Detaches for good: a new session, and a parent that is gone. Prints its pid. */
      const daemon = (setting = "") =>
        `(${setting} setsid sh -c 'sleep 600 >/dev/null 2>&1 </dev/null & echo $!' &); `;

      for (const [setting, how] of [
        ["", ""],
        ["env -i", ", though they cleared their environment"],
      ] as const) {
        it(`is stopped together with all of them, detached or not${how}`, async () => {
          const heard = await start(spawner, {
            argv: shell(`${daemon(setting)} sleep 600 & setsid sleep 600 & exec sleep 600`),
          });
          const detached = identityOf(await heard.firstLine);
          const leader = identityOf(heard.process.pid);
          await heard.process.stop(KILL_AT_ONCE);
          await heard.process.stop(KILL_AT_ONCE);
          expect(await heard.process.exited).to.deep.equal({ code: null, signal: 9 });
          expect(await heard.process.clear()).to.equal(true);
          await heard.ended;
          heard.process.release();
          expect(isAlive(leader)).to.equal(false);
          expect(isAlive(detached)).to.equal(false);
        });

        it(`that exits leaves them, until they are cleared${how}`, async () => {
          const heard = await start(spawner, {
            argv: shell(`${daemon(setting)} sleep 600 & echo $! >&2; exit 4`),
          });
          expect(await heard.process.exited).to.deep.equal({ code: 4, signal: null });
          const detached = identityOf(await heard.firstLine);
          const held = identityOf(heard.text("stderr").trim());
          expect(await heard.process.clear()).to.equal(true);
          await heard.ended;
          heard.process.release();
          expect(isAlive(held)).to.equal(false);
          expect(isAlive(detached)).to.equal(false);
        });

        it(`of another run leaves that one's alone${how}`, async () => {
          const other = await start(spawner, { argv: shell(`${daemon(setting)} exec sleep 600`) });
          const others = identityOf(await other.firstLine);
          const mine = await run(spawner, { argv: shell(`${daemon(setting)} sleep 600 & exit 0`) });
          expect(mine.cleared).to.equal(true);
          expect(isAlive(others)).to.equal(true);
          await other.process.stop(KILL_AT_ONCE);
          await other.process.exited;
          expect(await other.process.clear()).to.equal(true);
          other.process.release();
          expect(isAlive(others)).to.equal(false);
        });
      }

      it("that are just detaching or becoming other programs are stopped, too", async () => {
        const script = `
          n=0; while [ $n -lt 8 ]; do
            n=$((n + 1)); (setsid env A=1 sh -c 'exec sleep 600' >/dev/null 2>&1 & echo $!)
          done; exec sleep 600`;
        for (let round = 0; round < 25; round += 1) {
          const heard = await start(spawner, { argv: shell(script) });
          await heard.firstLine;
          for (let turns = 0; turns < round; turns += 1) {
            await new Promise((resolve) => setImmediate(resolve));
          }
          await heard.process.stop(KILL_AT_ONCE);
          await heard.process.exited;
          expect(await heard.process.clear()).to.equal(true);
          await heard.ended;
          heard.process.release();
          for (const pid of heard.text("stdout").trim().split("\n").map(Number)) {
            expect(identify(pid), `round ${round}`).to.equal(null);
          }
        }
      });

      it("that fork and detach without end, up to a bound, is stopped whole", async () => {
        // Doubles at each level; each process leads a session of its own, and the leaves say so.
        const bomb = `
          [ $1 -gt 0 ] || { echo leaf; exec sleep 600; }
          setsid sh -c "$bomb" sh $(($1 - 1)) &
          setsid sh -c "$bomb" sh $(($1 - 1)) &
          wait`;
        const heard = await start(spawner, {
          argv: shell(bomb, "6"),
          environment: { PATH, bomb },
        });
        await heard.firstLine;
        await heard.process.stop(KILL_AT_ONCE);
        await heard.process.exited;
        expect(await heard.process.clear()).to.equal(true);
        // Whoever lives would hold the streams.
        await heard.ended;
        heard.process.release();
      });
    });

    describe("asked to end before it is killed", () => {
      it("may end as it likes", async () => {
        const heard = await start(spawner, {
          argv: shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"),
        });
        await heard.firstLine;
        await heard.process.stop({ first: "SIGTERM", graceMs: 60_000 });
        expect(await heard.process.exited).to.deep.equal({ code: 5, signal: null });
        await heard.process.clear();
        heard.process.release();
      });

      it("is killed when the grace is over", async () => {
        const heard = await start(spawner, {
          argv: shell("trap '' TERM; echo ready; while :; do sleep 0.01; done"),
        });
        await heard.firstLine;
        await heard.process.stop({ first: "SIGTERM", graceMs: 1 });
        expect(await heard.process.exited).to.deep.equal({ code: null, signal: 9 });
        await heard.process.clear();
        heard.process.release();
      });

      it("is killed at once when somebody is in a hurry", async () => {
        const heard = await start(spawner, {
          argv: shell("trap '' TERM; echo ready; while :; do sleep 0.01; done"),
        });
        await heard.firstLine;
        const asked = heard.process.stop({ first: "SIGTERM", graceMs: 3_600_000 });
        await heard.process.stop(KILL_AT_ONCE);
        expect(await heard.process.exited).to.deep.equal({ code: null, signal: 9 });
        await asked;
        await heard.process.clear();
        heard.process.release();
      });
    });

    it("goes with the spawner when that is closed", async () => {
      const own = spawnerOf(mode);
      const heard = await start(own, { argv: shell("setsid sleep 600 & echo $!; exec sleep 600") });
      const detached = identityOf(await heard.firstLine);
      const leader = identityOf(heard.process.pid);
      await own.close();
      expect(isAlive(leader)).to.equal(false);
      expect(isAlive(detached)).to.equal(false);
    });
  });
}

describe("a process group that may not be signalled", () => {
  it("is an error of the stop, and is reaped all the same when it ends", async () => {
    const signals: string[] = [];
    let forbidden = true;
    const spawner = spawnerOf("subreaper", {
      killGroup(leader, signal) {
        signals.push(signal);
        if (forbidden) throw Object.assign(new Error("no"), { code: "EPERM" });
        process.kill(-leader, signal);
      },
    });
    const heard = await start(spawner, { argv: ["/bin/sleep", "600"] });
    const refusal = await refusalOf(() => heard.process.stop(KILL_AT_ONCE));
    expect(refusal.code).to.equal("process_stop_failed");
    expect(refusal.mutationMayHaveApplied).to.equal(true);
    heard.process.release();
    forbidden = false;
    await heard.process.stop(KILL_AT_ONCE);
    await heard.process.exited;
    expect(signals).to.deep.equal(["SIGKILL", "SIGKILL"]);
    expect(readProcessRow(heard.process.pid)).to.equal(null);
    await spawner.close();
  });

  it("is no failure of the end when the leader was all of it", async () => {
    const spawner = spawnerOf("subreaper", {
      killGroup() {
        throw Object.assign(new Error("no"), { code: "EPERM" });
      },
    });
    const alone = await run(spawner, { argv: ["/bin/true"] });
    expect(alone).to.deep.include({ exit: { code: 0, signal: null }, cleared: true });

    const heard = await start(spawner, { argv: shell("sleep 600 >/dev/null 2>&1 & echo $!") });
    await heard.process.exited;
    const left = identityOf(await heard.firstLine);
    expect(await heard.process.clear()).to.equal(false);
    process.kill(left.pid, "SIGKILL");
    expect(await waitForEnd(left, 10_000)).to.equal(true);
    heard.process.release();
    await spawner.close();
  });

  it("gets one deadly signal at most", async () => {
    const signals: string[] = [];
    const spawner = spawnerOf("subreaper", {
      killGroup(leader, signal) {
        signals.push(signal);
        process.kill(-leader, signal);
      },
    });
    const heard = await start(spawner, { argv: ["/bin/sleep", "600"] });
    await heard.process.stop(KILL_AT_ONCE);
    await heard.process.stop(KILL_AT_ONCE);
    await heard.process.exited;
    await heard.process.clear();
    heard.process.release();
    expect(signals).to.deep.equal(["SIGKILL"]);
    await spawner.close();
  });
});

describe("descriptors of this process", () => {
  it("can all be closed to what it starts, where the C library can not do it in the child", async () => {
    const inheritable = native("int dup(int fd)")(1);
    closeOthersAtExec();
    const child = spawn("ls", ["/proc/self/fd"], { stdio: ["ignore", "pipe", "ignore"] });
    const [listing] = await once(child.stdout, "data");
    closeSync(inheritable);
    expect(String(listing).trim().split("\n")).to.deep.equal(["0", "1", "2", "3"]);
  });
});
