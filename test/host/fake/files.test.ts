import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { FilePlace, UserFiles } from "../../../host/machine/files.ts";
import { fakeHost, hostRefusal } from "../../support/fake-host.ts";
import { type TempFolder, tempFolder } from "../../support/temp-folder.ts";

const home = (path: string): FilePlace => ({ root: "home", path });
const shared = (path: string): FilePlace => ({ root: "shared", path });

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

async function read(files: UserFiles, place: FilePlace): Promise<string> {
  const download = await files.download("alex", place);
  const parts: Uint8Array[] = [];
  for await (const chunk of download.chunks) parts.push(chunk);
  await download.close();
  expect(Buffer.concat(parts).length).to.equal(download.sizeBytes);
  return Buffer.concat(parts).toString("utf8");
}

describe("a fake host's files", () => {
  let folder: TempFolder;
  let files: UserFiles;
  beforeEach(async () => {
    folder = tempFolder();
    files = (await fakeHost(folder.path)).files;
  });
  afterEach(() => folder[Symbol.dispose]());

  it("are written, listed, read, copied, moved across roots and deleted", async () => {
    await files.mkdir("alex", home("Photos"));
    await files.upload("alex", home("Photos/a.txt"), chunks("one ", "two"));
    await files.upload("alex", home(".hidden"), chunks());
    expect(await read(files, home("Photos/a.txt"))).to.equal("one two");
    await files.upload("alex", home("Photos/a.txt"), chunks("new"));
    await files.copy("alex", home("Photos"), home("Copy"));
    await files.move("alex", home("Copy/a.txt"), shared("b.txt"));
    expect(await read(files, shared("b.txt"))).to.equal("new");
    const entries = await files.list("alex", home("."));
    expect(entries.map(({ name, dir, hidden }) => ({ name, dir, hidden }))).to.deep.equal([
      { name: ".hidden", dir: false, hidden: true },
      { name: "Copy", dir: true, hidden: false },
      { name: "Photos", dir: true, hidden: false },
    ]);
    expect(await files.stat("alex", home("Photos/a.txt"))).to.include({ size_bytes: 3 });
    await files.delete("alex", home("Photos"));
    expect(await hostRefusal(files.stat("alex", home("Photos")))).to.equal("not-found");
  });

  it("are refused outside their root, however the path is written", async () => {
    for (const path of ["..", "a/../../b", "/etc/passwd", "a//b", "./a", "a\0b", "a/", "\ud800"]) {
      expect(await hostRefusal(files.stat("alex", home(path))), path).to.equal("bad-path");
      expect(await hostRefusal(files.upload("alex", home(path), chunks()))).to.equal("bad-path");
    }
    expect(await hostRefusal(files.stat("alex", home("x".repeat(256))))).to.equal("bad-path");
    expect(await hostRefusal(files.stat("alex", home("x".repeat(255))))).to.equal("not-found");
    expect(await hostRefusal(files.list("../alex", home("")))).to.equal("unknown-user");
    for (const path of ["", "."]) {
      expect(await hostRefusal(files.delete("alex", home(path)))).to.equal("bad-path");
    }
  });

  it("follow no link, neither on the way nor at the end", async () => {
    await files.list("alex", home(""));
    const outside = join(folder.path, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "secret"), "secret");
    const own = join(folder.path, "files", "home", "alex");
    symlinkSync(outside, join(own, "folder"));
    symlinkSync(join(outside, "secret"), join(own, "file"));
    expect(await hostRefusal(files.stat("alex", home("folder/secret")))).to.equal("not-found");
    expect(await hostRefusal(files.download("alex", home("file")))).to.equal("bad-path");
    expect(await hostRefusal(files.list("alex", home("folder")))).to.equal("bad-path");
    await files.upload("alex", home("file"), chunks("mine"));
    expect(readFileSync(join(outside, "secret"), "utf8")).to.equal("secret");
  });

  it("replace nothing by a move or a copy, and no folder goes into itself", async () => {
    await files.upload("alex", home("a"), chunks("a"));
    await files.upload("alex", home("b"), chunks("b"));
    await files.mkdir("alex", home("d"));
    expect(await hostRefusal(files.move("alex", home("a"), home("b")))).to.equal("exists");
    expect(await hostRefusal(files.copy("alex", home("a"), home("b")))).to.equal("exists");
    expect(await hostRefusal(files.mkdir("alex", home("d")))).to.equal("exists");
    expect(await hostRefusal(files.upload("alex", home("d"), chunks()))).to.equal("exists");
    expect(await hostRefusal(files.move("alex", home("d"), home("d/e")))).to.equal("bad-path");
    expect(await hostRefusal(files.copy("alex", home("c"), home("e")))).to.equal("not-found");
    expect(await read(files, home("b"))).to.equal("b");
  });

  it("are as they were after an upload that broke off, and nothing is left of it", async () => {
    await files.upload("alex", home("a"), chunks("whole"));
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("ha");
      throw new Error("gone");
    }
    const failed = await files.upload("alex", home("a"), broken()).catch((error) => error.message);
    expect(failed).to.equal("gone");
    expect(await read(files, home("a"))).to.equal("whole");
    expect(readdirSync(join(folder.path, "files", "home", "alex"))).to.deep.equal(["a"]);
  });

  it("can be read but not changed while a health issue blocks writes", async () => {
    await files.upload("alex", home("a"), chunks("a"));
    const storageReport = join(folder.path, "storage.json");
    writeFileSync(storageReport, JSON.stringify({ findings: [{ id: "data-drive-missing" }] }));
    const blocked = await fakeHost(folder.path, { storageReport });
    expect(await hostRefusal(blocked.files.delete("alex", home("a")))).to.equal(
      "blocked-by-health-issue",
    );
    expect(await read(blocked.files, home("a"))).to.equal("a");
    expect((await blocked.health.findings()).storage).to.deep.equal([{ id: "data-drive-missing" }]);
    writeFileSync(storageReport, "{");
    expect((await blocked.health.findings()).storage).to.deep.equal([
      { id: "health-report-malformed" },
    ]);
    expect(await hostRefusal(blocked.files.mkdir("alex", home("new")))).to.equal(
      "nothing: it was done",
    );
  });
});
