import { execFileSync } from "node:child_process";
import {
  chmodSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { ensurePrivateDirectory, readSecureFile, writeSecureFile } from "../../host/secure-file.ts";
import { refusalOf } from "../support/refusal.ts";
import { type TempFolder, tempFolder } from "../support/temp-folder.ts";

describe("a secure file", () => {
  let folder: TempFolder;
  let path: string;
  beforeEach(() => {
    folder = tempFolder();
    path = join(folder.path, "token");
  });
  afterEach(() => folder[Symbol.dispose]());

  it("reads back what was written, byte for byte", async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, value) => value);
    await writeSecureFile(path, bytes);
    expect(await readSecureFile(path)).to.deep.equal(Buffer.from(bytes));
  });

  it("is absent, not an error, when nothing stands there", async () => {
    expect(await readSecureFile(path)).to.equal(null);
  });

  it("has mode 0600 whatever the umask", async () => {
    const before = process.umask(0o777);
    try {
      await writeSecureFile(path, "secret");
    } finally {
      process.umask(before);
    }
    expect(statSync(path).mode & 0o777).to.equal(0o600);
    expect(String(await readSecureFile(path))).to.equal("secret");
  });

  it("replaces the former bytes and leaves no temporary file", async () => {
    await writeSecureFile(path, "a longer first secret");
    await writeSecureFile(path, "second");
    expect(String(await readSecureFile(path))).to.equal("second");
    expect(readdirSync(folder.path)).to.deep.equal(["token"]);
  });

  it("leaves the former file and no temporary one when it can not take its place", async () => {
    mkdirSync(path);
    writeFileSync(join(path, "inside"), "");
    const refusal = await refusalOf(() => writeSecureFile(path, "secret"));
    expect(refusal.message).not.to.contain(folder.path);
    expect(readdirSync(folder.path)).to.deep.equal(["token"]);
  });

  it("replaces a symbolic link in its place instead of writing through it", async () => {
    const victim = join(folder.path, "victim");
    writeFileSync(victim, "untouched");
    symlinkSync(victim, path);
    await writeSecureFile(path, "secret");
    expect(readFileSync(victim, "utf8")).to.equal("untouched");
    expect(String(await readSecureFile(path))).to.equal("secret");
  });

  it("is read whole, the old one or the new, however often it is replaced meanwhile", async () => {
    await writeSecureFile(path, "0".repeat(1_000));
    let writing = true;
    const writer = (async () => {
      for (let n = 1; n <= 200; n += 1) await writeSecureFile(path, `${n % 10}`.repeat(1_000));
      writing = false;
    })();
    while (writing) {
      expect(String(await readSecureFile(path))).to.match(/^(\d)\1{999}$/);
    }
    await writer;
  });

  it("needs its folder", async () => {
    const refusal = await refusalOf(() => writeSecureFile(join(path, "deeper"), "secret"));
    expect(refusal.code).to.equal("not_found");
  });

  it("may hold 64 KiB and not a byte more", async () => {
    await writeSecureFile(path, Buffer.alloc(65_536));
    expect((await readSecureFile(path))?.length).to.equal(65_536);
    const refusal = await refusalOf(() => writeSecureFile(path, Buffer.alloc(65_537)));
    expect(refusal.code).to.equal("too_large");
  });

  for (const [what, spoil, reason] of [
    ["others may read it", () => chmodSync(path, 0o604), "mode"],
    ["the group may write it", () => chmodSync(path, 0o620), "mode"],
    ["it may be executed", () => chmodSync(path, 0o700), "mode"],
    ["it has a second name", () => linkSync(path, `${path}.other`), "links"],
    ["it outgrew its bound", () => writeFileSync(path, Buffer.alloc(65_537)), "size"],
  ] as const) {
    it(`is refused when ${what}`, async () => {
      await writeSecureFile(path, "secret");
      spoil();
      const refusal = await refusalOf(() => readSecureFile(path));
      expect(refusal.code).to.equal("permission_denied");
      expect(refusal.details).to.deep.equal({ reason });
    });
  }

  it("is refused when it is a link, a folder or a FIFO, without waiting for anybody", async () => {
    const real = join(folder.path, "real");
    await writeSecureFile(real, "secret");
    symlinkSync(real, join(folder.path, "link"));
    mkdirSync(join(folder.path, "folder"), { mode: 0o700 });
    execFileSync("mkfifo", ["-m", "600", join(folder.path, "fifo")]);
    for (const name of ["link", "folder", "fifo"]) {
      const refusal = await refusalOf(() => readSecureFile(join(folder.path, name)));
      expect(refusal.details, name).to.deep.equal({ reason: "not_regular" });
    }
  });
});

describe("a private directory", () => {
  let folder: TempFolder;
  beforeEach(() => {
    folder = tempFolder();
  });
  afterEach(() => folder[Symbol.dispose]());

  it("is created with all that lead to it, for this account alone", async () => {
    const path = join(folder.path, "a", "b");
    await ensurePrivateDirectory(path);
    await ensurePrivateDirectory(path);
    expect(statSync(path).mode & 0o777).to.equal(0o700);
    expect(statSync(join(folder.path, "a")).mode & 0o777).to.equal(0o700);
  });

  it("is refused with other rights, and they are left as they are", async () => {
    const path = join(folder.path, "open");
    mkdirSync(path);
    chmodSync(path, 0o755);
    const refusal = await refusalOf(() => ensurePrivateDirectory(path));
    expect(refusal.details).to.deep.equal({ reason: "mode" });
    expect(statSync(path).mode & 0o777).to.equal(0o755);
  });

  it("is refused, and not asked for again and again, where the system makes none", async () => {
    for (const path of ["/proc/lemon", "/proc/lemon/below"]) {
      expect((await refusalOf(() => ensurePrivateDirectory(path))).code).to.equal("not_found");
    }
  });

  it("is refused where a file stands", async () => {
    const path = join(folder.path, "file");
    writeFileSync(path, "");
    expect((await refusalOf(() => ensurePrivateDirectory(path))).details).to.deep.equal({
      reason: "not_directory",
    });
    expect((await refusalOf(() => ensurePrivateDirectory(join(path, "below")))).code).to.equal(
      "not_directory",
    );
  });
});
