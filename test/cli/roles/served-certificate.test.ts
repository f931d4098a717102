import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { type ServedCertificate, serveCertificate } from "../../../cli/roles/served-certificate.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { logLines } from "../../support/log-lines.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";
import { TEST_ISSUED } from "../../support/tls-fixture.ts";

const DAY_MS = 24 * 60 * 60 * 1_000;
/** When those of the fixture end. */
const END_MS = Date.UTC(2120, 0, 1);

describe("the certificate of a controller, over its life", () => {
  let folder: TempFolder;
  let said: string[];
  let whenSaid: () => void;
  beforeEach(() => {
    folder = tempFolder();
    said = [];
    whenSaid = () => {};
    write(TEST_ISSUED.far);
  });
  afterEach(() => folder[Symbol.dispose]());

  const write = ({ cert, key }: { cert: string; key: string }): void => {
    writeFileSync(join(folder.path, "cert.pem"), cert);
    writeFileSync(join(folder.path, "key.pem"), key, { mode: 0o600 });
  };
  const serve = (nowMs = Date.UTC(2026, 10, 30)): Promise<ServedCertificate> =>
    serveCertificate(
      { certFile: join(folder.path, "cert.pem"), keyFile: join(folder.path, "key.pem") },
      {
        clock: new FakeClock(nowMs),
        log: logLines().log,
        say(line) {
          said.push(line);
          whenSaid();
        },
      },
    );
  /** As the system does; resolves when so many lines more were said. */
  const hangUp = async (lines = 1): Promise<void> => {
    const wanted = said.length + lines;
    const done = new Promise<void>((resolve) => {
      whenSaid = () => {
        if (said.length === wanted) resolve();
      };
    });
    process.emit("SIGHUP", "SIGHUP");
    await done;
  };

  it("is told of when it ends within 14 days, and not before", async () => {
    using _early = await serve(END_MS - 14 * DAY_MS);
    expect(said).to.deep.equal([]);
    using _late = await serve(END_MS - 14 * DAY_MS + 1);
    expect(said).to.deep.equal([
      "the certificate of --tls-cert expires on 2120-01-01; renew it and send SIGHUP",
    ]);
    expect((await refusalOf(() => serve(END_MS))).code).to.equal("tls_unusable");
  });

  it("is handed on with each renewal, and one that came before anybody followed is not lost", async () => {
    using served = await serve();
    write(TEST_ISSUED.near);
    await hangUp();
    const shown: string[] = [];
    const early = new Promise<void>((resolve) => {
      whenSaid = resolve;
    });
    served.follow(async ({ leaf }) => void shown.push(leaf));
    await early;
    expect(shown).to.deep.equal([TEST_ISSUED.near.cert]);
    write(TEST_ISSUED.far);
    await hangUp();
    expect(shown).to.deep.equal([TEST_ISSUED.near.cert, TEST_ISSUED.far.cert]);
    expect(served.current.leaf).to.equal(TEST_ISSUED.far.cert);
  });

  it("stays as it is when what came can not be used or handed on, and the next one is taken", async () => {
    using served = await serve();
    const shown: string[] = [];
    let fails = true;
    served.follow(async ({ leaf }) => {
      if (fails) throw new Error("no room for the record");
      shown.push(leaf);
    });
    write({ ...TEST_ISSUED.near, cert: "nothing" });
    await hangUp();
    expect(served.current.leaf).to.equal(TEST_ISSUED.far.cert);
    write(TEST_ISSUED.near);
    await hangUp();
    fails = false;
    await hangUp();
    expect(said).to.deep.equal([
      "the certificate that is served stays: --tls-cert names a file that is not in PEM",
      "the certificate that is served stays: it could not be loaded anew",
      "the certificate was loaded anew and is valid until 2120-01-01",
    ]);
    expect(shown).to.deep.equal([TEST_ISSUED.near.cert]);
  });

  it("leaves the signal to the system when it is no longer served", async () => {
    const before = process.listenerCount("SIGHUP");
    const served = await serve();
    expect(process.listenerCount("SIGHUP")).to.equal(before + 1);
    served[Symbol.dispose]();
    expect(process.listenerCount("SIGHUP")).to.equal(before);
  });
});
