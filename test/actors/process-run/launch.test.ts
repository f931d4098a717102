import { mkdirSync, readdirSync, renameSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Launch } from "../../../actors/process-run/launch.ts";
import { type AllowedRoots, pinRoots } from "../../../host/allowed-roots.ts";
import { systemClock } from "../../../host/clock.ts";
import type { SystemSpawner } from "../../../host/spawner.ts";
import { type ProcessRunRequest, processRunRequest } from "../../../protocol/process.ts";
import { openDescriptors } from "../../support/descriptors.ts";
import { MODES, PATH, shell, spawnerOf } from "../../support/native-run.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

for (const mode of MODES) {
  describe(`a launch (${mode})`, () => {
    let spawner: SystemSpawner;
    let temp: TempFolder;
    let roots: AllowedRoots;
    let folder: string;
    beforeEach(() => {
      spawner = spawnerOf(mode);
      temp = tempFolder();
      folder = join(temp.path, "work");
      mkdirSync(join(temp.path, "state"));
      mkdirSync(join(folder, "here"), { recursive: true });
      roots = pinRoots({
        roots: [folder],
        defaultCwd: folder,
        stateFolder: join(temp.path, "state"),
      });
    });
    afterEach(async () => {
      await spawner.close();
      roots.close();
      temp[Symbol.dispose]();
    });

    const launch = (changes: Partial<ProcessRunRequest>): Launch => {
      const request = processRunRequest.parse({
        processId: "run:1",
        cwd: "here",
        argv: ["true"],
        stdin: new Uint8Array(0),
        timeoutMs: 10_000,
        maxOutputBytes: 1_024,
        ...changes,
      });
      const environment = { PATH, HOME: folder };
      return new Launch({ roots, spawner, environment, clock: systemClock }, request);
    };

    it("that was prepared starts in the directory found then, whatever it is called by now", async () => {
      const prepared = launch({
        argv: [...shell("touch here-it-is; cat")],
        stdin: Buffer.from("in"),
      });
      prepared.prepare();
      renameSync(join(folder, "here"), join(folder, "there"));
      const { exitCode, stdout } = await (await prepared.start()).ended;
      expect([exitCode, String(Buffer.from(stdout))]).to.deep.equal([0, "in"]);
      expect(readdirSync(join(folder, "there"))).to.deep.equal(["here-it-is"]);
    });

    it("starts nothing by being prepared", async () => {
      const prepared = launch({ argv: [...shell("touch started")] });
      prepared.prepare();
      prepared.discard();
      // What comes after it has started and ended.
      expect((await (await launch({}).start()).ended).exitCode).to.equal(0);
      expect(readdirSync(join(folder, "here"))).to.deep.equal([]);
    });

    it("tells what it can not be prepared with when it is started", async () => {
      rmdirSync(join(folder, "here"));
      const faults: readonly [Partial<ProcessRunRequest>, string][] = [
        [{}, "not_found"],
        [{ cwd: ".", argv: ["no-such-program"] }, "executable_not_found"],
      ];
      for (const [changes, code] of faults) {
        const prepared = launch(changes);
        prepared.prepare();
        expect(await refusalOf(() => prepared.start())).to.include({ code });
      }
    });

    it("holds nothing once it is over, and is not prepared any more then", async () => {
      const before = openDescriptors();
      const discarded = launch({});
      discarded.prepare();
      discarded.discard();
      discarded.discard();
      discarded.prepare();
      const failed = launch({ argv: ["no-such-program"] });
      failed.prepare();
      await refusalOf(() => failed.start());
      failed.prepare();
      const started = launch({});
      // It also takes what the spawner had made ready for the others.
      await (await started.start()).ended;
      started.prepare();
      // What others had left open for a moment may be gone meanwhile.
      expect(openDescriptors()).to.be.at.most(before);
    });
  });
}
