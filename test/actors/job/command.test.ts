import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Command, type CommandGround } from "../../../actors/job/command.ts";
import type { JobCommand } from "../../../actors/job/kind.ts";
import { isAlive } from "../../../host/process-identity.ts";
import type { SystemSpawner } from "../../../host/spawner.ts";
import { openDescriptors } from "../../support/descriptors.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { logLines } from "../../support/log-lines.ts";
import { identityOf, MODES, PATH, spawnerOf } from "../../support/native-run.ts";
import { codeOfRejection } from "../../support/supervision.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

/** What a program wrote, as it came. */
class Heard {
  readonly lines: string[] = [];
  sounds = 0;
  #waiting: { readonly holds: (lines: readonly string[]) => boolean; resolve(): void }[] = [];

  line(stream: string, text: string): void {
    this.lines.push(`${stream}: ${text}`);
    this.#waiting = this.#waiting.filter(({ holds, resolve }) => {
      if (!holds(this.lines)) return true;
      resolve();
      return false;
    });
  }

  heard(): void {
    this.sounds += 1;
  }

  /** Resolves when that many lines have come. */
  atLeast(count: number): Promise<void> {
    const holds = (lines: readonly string[]): boolean => lines.length >= count;
    if (holds(this.lines)) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ holds, resolve }));
  }
}

const shell = (script: string, ...args: string[]): JobCommand => ({
  argv: ["sh", "-c", script, "sh", ...args],
});

for (const mode of MODES) {
  describe(`A program of a job (${mode})`, () => {
    const clock = new FakeClock();
    const log = logLines();
    let spawner: SystemSpawner;
    let ground: CommandGround;
    let heard: Heard;
    let folder: TempFolder;

    before(() => {
      spawner = spawnerOf(mode, { clock });
      ground = { spawner: () => spawner, environment: { PATH }, clock, log: log.log };
    });
    after(() => spawner.close());
    beforeEach(() => {
      heard = new Heard();
      folder = tempFolder();
    });
    afterEach(() => folder[Symbol.dispose]());

    const start = (command: JobCommand): Promise<Command> => Command.start(ground, command, heard);

    it("is heard line by line, to the last byte, and ends with its exit code", async () => {
      const { ended } = await start(shell("printf 'one\\r\\ntwo'; echo err >&2; exit 3"));
      expect(await ended).to.deep.equal({ exitCode: 3, killed: false });
      expect([...heard.lines].sort()).to.deep.equal(["stderr: err", "stdout: one", "stdout: two"]);
      expect(heard.sounds).to.be.greaterThan(0);
    });

    it("reads its input to the end, in the root folder, with what every program is given", async () => {
      const command = shell("cat; pwd; echo $FLAVOUR; env | grep -c ^PATH=");
      const stdin = Buffer.from("in\n");
      await (await start({ ...command, stdin, environment: { FLAVOUR: "sour" } })).ended;
      expect(heard.lines.map((line) => line.slice(8))).to.deep.equal(["in", "/", "sour", "1"]);
    });

    it("tells a death by signal as a shell does", async () => {
      const { ended } = await start(shell("kill -TERM $$"));
      expect(await ended).to.deep.equal({ exitCode: 143, killed: false });
    });

    it("is an error when it can not be started", async () => {
      const missing = start({ argv: ["lemon-no-such-program"] });
      expect(await codeOfRejection(missing)).to.equal("executable_not_found");
      const argument = start({ argv: ["echo", "x".repeat(200_000)] });
      expect(await codeOfRejection(argument)).to.equal("argument_list_too_long");
    });

    it("has SIGTERM when it is to stop, and the time to do it well", async () => {
      const path = join(folder.path, "undone");
      const script = `trap 'echo undo > "$1"; exit 7' TERM; echo up; while :; do sleep 0.01; done`;
      const command = await start(shell(script, path));
      await heard.atLeast(1);
      command.stop();
      command.stop();
      expect(await command.ended).to.deep.equal({ exitCode: 7, killed: false });
      expect(readFileSync(path, "utf8")).to.equal("undo\n");
    });

    it("is killed 10 s later, its whole group with it", async () => {
      const script = "trap '' TERM; sh -c 'echo $$; exec sleep 1000' & echo $$; wait; sleep 1000";
      const command = await start(shell(script));
      await heard.atLeast(2);
      const identities = heard.lines.map((line) => identityOf(line.slice(8)));
      command.stop();
      await clock.advance(9_999);
      expect(identities.every(isAlive)).to.equal(true);
      await clock.advance(1);
      expect(await command.ended).to.deep.equal({ exitCode: 137, killed: true });
      expect(identities.some(isAlive)).to.equal(false);
    });

    it("leaves what it started the same time when it ends first itself", async () => {
      const path = join(folder.path, "undone");
      const inner = `trap 'sleep 0.2; echo undo > "$1"; exit' TERM; echo up; while :; do sleep 0.01; done`;
      const command = await start(shell(`sh -c "$2" sh "$1" & wait`, path, inner));
      await heard.atLeast(1);
      command.stop();
      await command.ended;
      expect(existsSync(path)).to.equal(true);
    });

    it("has what it left running ended once that is silent", async () => {
      const command = await start(shell("sleep 1000 & echo $!"));
      await heard.atLeast(1);
      const left = identityOf(heard.lines[0]?.slice(8) ?? "");
      let over = false;
      const ended = command.ended.then((end) => {
        over = true;
        return end;
      });
      while (!over) await clock.advance(50);
      expect((await ended).exitCode).to.equal(0);
      expect(isAlive(left)).to.equal(false);
    });

    it("holds no descriptor afterwards", async () => {
      await (await start(shell("echo once"))).ended;
      const before = openDescriptors();
      for (let n = 0; n < 5; n += 1) await (await start(shell("echo again"))).ended;
      expect(openDescriptors()).to.be.at.most(before);
    });
  });
}
