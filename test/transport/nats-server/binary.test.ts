import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import {
  findNatsServer,
  parseVersion,
  requireVersion,
} from "../../../transport/nats-server/binary.ts";
import { natsServerBinary } from "../../support/nats.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

describe("the search for a nats-server", () => {
  let folder: TempFolder;
  beforeEach(() => {
    folder = tempFolder();
  });
  afterEach(() => folder[Symbol.dispose]());

  /** A program that prints `output` when asked for its version. */
  function program(name: string, output: string, mode = 0o755): string {
    const path = join(folder.path, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `#!/bin/sh\nprintf '%s\\n' '${output}'\n`);
    chmodSync(path, mode);
    return path;
  }

  it("takes the one that LEMON_NATS_SERVER names, whatever PATH holds", async () => {
    const named = program("here/any-name", "nats-server: v2.15.1");
    program("path/nats-server", "nats-server: v2.14.0");
    const env = { LEMON_NATS_SERVER: named, PATH: join(folder.path, "path") };
    expect(await findNatsServer(env)).to.deep.equal({ path: named, version: "2.15.1" });
  });

  it("asks PATH in its order and passes over what cannot be run", async () => {
    program("first/nats-server", "nats-server: v2.13.0", 0o644);
    mkdirSync(join(folder.path, "second", "nats-server"), { recursive: true });
    const third = program("third/nats-server", "nats-server: v2.14.0");
    program("fourth/nats-server", "nats-server: v2.15.0");
    const PATH = ["first", "second", "", "third", "fourth"]
      .map((name) => (name === "" ? "relative" : join(folder.path, name)))
      .join(":");
    expect(await findNatsServer({ PATH })).to.deep.equal({ path: third, version: "2.14.0" });
  });

  it("says in one line that there is none, and names no path", async () => {
    const envs: Record<string, string>[] = [
      {},
      { PATH: folder.path },
      { LEMON_NATS_SERVER: join(folder.path, "missing"), PATH: process.env["PATH"] ?? "" },
      { LEMON_NATS_SERVER: basename(program("relative", "nats-server: v2.15.1")) },
    ];
    for (const env of envs) {
      const refusal = await refusalOf(() => findNatsServer(env));
      expect(refusal.code).to.equal("nats_server_missing");
      expect(refusal.message).to.match(/^[^\n]*LEMON_NATS_SERVER[^\n]*$/);
      expect(refusal.message).not.to.include(folder.path);
    }
  });

  it("refuses a program that tells no version or fails", async () => {
    const silent = program("silent", "hello");
    const failing = program("failing", "nats-server: v2.15.1");
    writeFileSync(failing, "#!/bin/sh\necho nats-server: v2.15.1; exit 1\n");
    for (const LEMON_NATS_SERVER of [silent, failing]) {
      const refusal = await refusalOf(() => findNatsServer({ LEMON_NATS_SERVER }));
      expect(refusal.code).to.equal("nats_server_missing");
    }
  });

  it("refuses one below 2.12.7 and says which was found", async () => {
    const LEMON_NATS_SERVER = program("old", "nats-server: v2.9.10");
    const refusal = await refusalOf(() => findNatsServer({ LEMON_NATS_SERVER }));
    expect(refusal.code).to.equal("nats_server_too_old");
    expect(refusal.details).to.deep.equal({ found: "2.9.10", needed: "2.12.7" });
    expect(refusal.message).to.equal("nats-server 2.9.10 is too old; lemon needs at least 2.12.7");
  });

  it("finds the one that these tests run with", async () => {
    const { path, version } = await natsServerBinary();
    expect(path).to.match(/^\//);
    expect(parseVersion(version)).not.to.equal(null);
  });
});

describe("a nats-server's version", () => {
  const accepted = ["2.12.7", "2.12.8-RC.1", "2.12.10", "2.13.0", "2.15.1", "3.0.0", "10.0.0-dev"];
  const refused = ["2.12.6", "2.12.7-RC.3", "2.11.99", "2.9.10", "1.99.99", "0.0.0"];

  for (const version of accepted) {
    it(`${version} is new enough`, () => {
      const parsed = parseVersion(`nats-server: v${version}\n`);
      expect(parsed).not.to.equal(null);
      if (parsed !== null) expect(() => requireVersion(parsed)).not.to.throw();
    });
  }

  for (const version of refused) {
    it(`${version} is too old`, () => {
      const parsed = parseVersion(version);
      expect(parsed).not.to.equal(null);
      if (parsed !== null) {
        expect(() => requireVersion(parsed))
          .to.throw(LemonError)
          .with.property("code", "nats_server_too_old");
      }
    });
  }

  for (const text of [
    "",
    "v2.15",
    "2.15.1.4",
    "nats-server: v2.15.1 (go1.25)",
    "2.15.x",
    "x2.15.1y",
  ]) {
    it(`is not read from ${JSON.stringify(text)}`, () => {
      expect(parseVersion(text)).to.equal(null);
    });
  }
});
