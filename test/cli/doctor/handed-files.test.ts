import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { writeControllerRecord } from "../../../cli/controller-record.ts";
import { checkRunFolder } from "../../../cli/doctor/local.ts";
import { handedFiles } from "../../../cli/handed-files.ts";
import { ownIdentity } from "../../../host/process-identity.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

describe("the doctor's look at the keys of a NATS system that a running controller was handed", () => {
  let folder: TempFolder;
  let home: string;
  beforeEach(() => {
    folder = tempFolder();
    home = join(folder.path, "home");
    mkdirSync(home, { mode: 0o700 });
  });
  afterEach(() => folder[Symbol.dispose]());

  const file = (name: string, mode: number): string => {
    const path = join(folder.path, name);
    writeFileSync(path, "seed");
    chmodSync(path, mode);
    return path;
  };
  const found = async (files: ReturnType<typeof handedFiles>) => {
    const record = { port: 4_041, ...ownIdentity(), tokenFile: null };
    await writeControllerRecord(home, { ...record, handedFiles: [...files] });
    return (await checkRunFolder(home)).filter(({ level }) => level !== "ok");
  };

  it("names each that others may read or change, what it is good for, and how to mend it", async () => {
    const operatorKeyFile = file("operator.nk", 0o640);
    const files = handedFiles({
      url: "nats://x",
      credsFile: file("controller.creds", 0o600),
      sysCredsFile: file("system.creds", 0o602),
      operatorKeyFile,
      leafUrl: null,
    });
    expect(files.map(({ flag }) => flag)).to.deep.equal([
      "--nats-creds",
      "--nats-sys-creds",
      "--nats-operator-key",
    ]);
    const findings = await found(files);
    expect(findings.map(({ level, finding }) => [level, finding])).to.deep.equal([
      [
        "warn",
        "the file of --nats-sys-creds has mode 602: whoever reads it can see and end every connection of the NATS system",
      ],
      [
        "warn",
        "the file of --nats-operator-key has mode 640: whoever reads it can make itself an account of the NATS system, or be any node",
      ],
    ]);
    expect(findings[1]?.mend).to.equal(`chmod 600 ${operatorKeyFile}`);
  });

  it("has nothing to say of private ones, of one that is gone, and of none", async () => {
    expect(await found([{ flag: "--nats-operator-key", path: file("a", 0o400) }])).to.deep.equal(
      [],
    );
    const gone = join(folder.path, "gone");
    expect(await found([{ flag: "--nats-operator-key", path: gone }])).to.deep.equal([]);
    const none = { credsFile: null, sysCredsFile: null, operatorKeyFile: null, leafUrl: null };
    expect(handedFiles({ url: "nats://x", ...none })).to.deep.equal([]);
  });
});
