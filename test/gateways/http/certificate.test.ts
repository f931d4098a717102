import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert } from "chai";
import { loadCertificate } from "../../../gateways/http/certificate.ts";
import { refusalOf } from "../../support/refusal.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";
import { TEST_ISSUED, TEST_TLS } from "../../support/tls-fixture.ts";

const NOW_MS = Date.UTC(2026, 10, 30);
const isRoot = process.geteuid?.() === 0;

describe("a certificate and its key", () => {
  let folder: TempFolder;
  beforeEach(() => {
    folder = tempFolder();
  });
  afterEach(() => folder[Symbol.dispose]());

  const file = (name: string, text: string, mode = 0o600): string => {
    const path = join(folder.path, name);
    writeFileSync(path, text);
    chmodSync(path, mode);
    return path;
  };
  const load = (cert: string, key: string, nowMs = NOW_MS) =>
    loadCertificate({ certFile: cert, keyFile: key }, nowMs);
  const far = () =>
    [file("cert.pem", TEST_ISSUED.far.cert, 0o644), file("key.pem", TEST_ISSUED.far.key)] as const;

  it("are taken with the chain that leads to their authority, also through symbolic links", async () => {
    const chain = TEST_ISSUED.far.cert + TEST_ISSUED.authority;
    symlinkSync(file("1.pem", chain, 0o644), join(folder.path, "cert.pem"));
    symlinkSync(file("1.key", TEST_ISSUED.far.key), join(folder.path, "key.pem"));
    const loaded = await load(join(folder.path, "cert.pem"), join(folder.path, "key.pem"));
    assert.equal(loaded.chain, chain);
    assert.equal(loaded.key, TEST_ISSUED.far.key);
    assert.equal(loaded.leaf, TEST_ISSUED.far.cert);
    assert.equal(loaded.expiresAtMs, Date.UTC(2120, 0, 1));
  });

  it("may stand in one file", async () => {
    const both = file("both.pem", TEST_TLS.key + TEST_TLS.cert);
    assert.equal((await load(both, both)).leaf, TEST_TLS.cert);
  });

  it("are taken from the first second they are valid, and to the last", async () => {
    const [cert, key] = far();
    const [begins, ends] = [Date.UTC(2020, 0, 1), Date.UTC(2120, 0, 1)];
    await load(cert, key, begins);
    await load(cert, key, ends - 1);
    const early = await refusalOf(() => load(cert, key, begins - 1));
    assert.match(
      early.message,
      /^The certificate of --tls-cert is valid only from 2020-01-01; .*clock$/,
    );
    const late = await refusalOf(() => load(cert, key, ends));
    assert.match(late.message, /^The certificate of --tls-cert expired on 2120-01-01; renew it$/);
    assert.equal(late.code, "tls_unusable");
  });

  it("are refused in one line that names the flag and neither a path nor a byte", async () => {
    const [cert, key] = far();
    const gone = join(folder.path, "gone");
    const junk = file("junk", "no PEM at all");
    const torn = (text: string) => text.replace(/\n.{20}/, "\n!!!!!");
    const large = file("large", `-----BEGIN CERTIFICATE-----\n${"x".repeat(262_144)}`);
    mkdirSync(join(folder.path, "folder"));
    execFileSync("mkfifo", [join(folder.path, "fifo")]);
    const cases: readonly [string, string, RegExp][] = [
      [gone, key, /^--tls-cert can not be read \(ENOENT\)$/],
      [cert, gone, /^--tls-key can not be read \(ENOENT\)$/],
      [join(folder.path, "folder"), key, /^--tls-cert names no regular file$/],
      [cert, join(folder.path, "fifo"), /^--tls-key names no regular file$/],
      [large, key, /^--tls-cert names a file that is too large$/],
      [junk, key, /^--tls-cert names a file that is not in PEM$/],
      [cert, junk, /^--tls-key names a file that is not in PEM$/],
      [key, key, /^--tls-cert holds no certificate \([A-Z_0-9]+\)$/],
      [file("torn", torn(TEST_ISSUED.far.cert)), key, /^--tls-cert holds no certificate/],
      [cert, cert.replace("cert", "key2"), /^--tls-key can not be read/],
      [cert, file("tornkey", torn(TEST_ISSUED.far.key)), /^--tls-key holds no private key/],
      [cert, file("nokey", TEST_ISSUED.far.cert), /^--tls-key holds no private key/],
      [cert, file("secret", TEST_ISSUED.encryptedKey), /^--tls-key is encrypted; /],
      [
        cert,
        file("other", TEST_ISSUED.near.key),
        /^--tls-key does not belong to the first certificate/,
      ],
      [file("expired", TEST_ISSUED.expired), key, /expired on 2021-01-01; renew it$/],
      [file("future", TEST_ISSUED.future), key, /is valid only from 2110-01-01; /],
      [
        file("chain", TEST_ISSUED.far.cert + torn(TEST_ISSUED.authority)),
        key,
        /^The certificates of --tls-cert can not be served/,
      ],
    ];
    for (const [certFile, keyFile, line] of cases) {
      const refused = await refusalOf(() => load(certFile, keyFile));
      assert.equal(refused.code, "tls_unusable");
      assert.match(refused.message, line);
      assert.notInclude(refused.message, folder.path);
      assert.notInclude(refused.message, "\n");
    }
  });

  it("are refused when others on this machine can read or change the key", async () => {
    const [cert, key] = far();
    for (const mode of [0o600, 0o400, 0o700]) {
      chmodSync(key, mode);
      assert.equal((await load(cert, key)).key, TEST_ISSUED.far.key);
    }
    for (const mode of [0o604, 0o602, 0o620, 0o610, 0o644, 0o660, 0o666]) {
      chmodSync(key, mode);
      const { message } = await refusalOf(() => load(cert, key));
      assert.match(message, /^--tls-key can be read or changed by others; give it mode 0600/);
    }
    chmodSync(key, 0o640);
    if (isRoot) {
      // Root's own may be read by its group.
      assert.equal((await load(cert, key)).key, TEST_ISSUED.far.key);
      chownSync(key, 12_345, 12_345);
      const { message } = await refusalOf(() => load(cert, key));
      assert.match(message, /^--tls-key belongs to another account; /);
    } else {
      const { message } = await refusalOf(() => load(cert, key));
      assert.match(message, /can be read or changed by others/);
    }
  });
});
