/** Proves what becomes of files on a file system that really hangs, or really fails (`faulty-disk.ts`). */
import { readFileSync } from "node:fs";
import { expect } from "chai";
import { type FaultyDisk, faultyDisk } from "../../support/faulty-disk.ts";
import { type FileRoom, fileRoom } from "../../support/file-room.ts";
import { refusalOf } from "../../support/refusal.ts";

interface Deletion {
  readonly path: string;
  readonly confirm: string;
  readonly confirmationToken: string;
}

// Accounts that may not mount one go without.
const probe = await faultyDisk();
await probe?.[Symbol.asyncDispose]();
if (probe !== null) describe("the file service on a disk", onFaultyDisk);

function onFaultyDisk(): void {
  let disk: FaultyDisk;
  let room: FileRoom;

  async function mount(): Promise<void> {
    const mounted = await faultyDisk();
    if (mounted === null) throw new Error("a second faulty disk was refused");
    disk = mounted;
    room = await fileRoom({ real: true, folder: disk.path });
  }
  async function unmount(): Promise<void> {
    await disk?.[Symbol.asyncDispose]();
    await room?.[Symbol.asyncDispose]();
  }

  const call = (method: Parameters<FileRoom["files"]["call"]>[0], request: object) =>
    room.files.call(method, { caller: "a", ...request });
  const write = (path: string, text = "text", expectedModifiedAtMs: number | null = null) =>
    call("write", {
      path,
      bytes: Buffer.from(text),
      offset: 0,
      truncate: true,
      mkdirs: true,
      expectedModifiedAtMs,
    });
  const stat = async (path: string) => Object(await call("stat", { path }));
  const namesIn = async (path: string): Promise<string[]> =>
    Object(await call("list", { path, showHidden: true }))
      .entries.map(Object)
      .map(nameOf);
  const preview = async (path: string): Promise<Deletion> => {
    const { confirmationToken } = Object(await call("preview", { path, recursive: true }));
    return { path, confirm: path, confirmationToken };
  };
  const helpers = () =>
    (room.row("/files/helpers")?.children ?? []).map(({ kind, state }) => `${kind} ${state}`);

  /** Has a request meet a call that hangs, and lets the helper's deadline pass. */
  async function hang(operation: string, name: string, request: () => Promise<unknown>) {
    await disk.answer(operation, name, "hang");
    const hangs = disk.hangs();
    const refusal = refusalOf(request);
    await hangs;
    await room.system.clock.advance(25_000);
    return await refusal;
  }

  /** Lets the killed helper's second pass, and the back-off after it. */
  async function next(): Promise<void> {
    await room.system.clock.advance(1_000);
    await room.nextHelper();
  }

  describe("whose call never returns", () => {
    beforeEach(mount);
    afterEach(unmount);

    it("tells of an unknown outcome at the deadline, and serves on beside the helper that can not be killed", async () => {
      await write("kept");
      const deletion = await preview("kept");
      const refusal = await hang("write", "*", () => write("stuck"));
      expect(refusal).to.include({
        code: "filesystem_outcome_unknown",
        wire: "TIMEOUT",
        retrySafe: false,
        mutationMayHaveApplied: true,
      });
      await next();
      const voided = await refusalOf(() => call("delete", deletion));
      expect(voided.code).to.equal("invalid_confirmation_token");
      expect(await stat("kept")).to.include({ size: 4 });
      expect(helpers()).to.deep.equal(["file-helper running", "hung-file-helper running"]);
      const [, hung] = room.row("/files/helpers")?.children ?? [];
      const pid = Number(/hung-(\d+)$/.exec(hung?.path ?? "")?.[1]);
      // Killed, and there: in a sleep that no signal ends.
      expect(readFileSync(`/proc/${pid}/status`, "utf8")).to.match(/^State:\s+D/m);
      await disk[Symbol.asyncDispose]();
      while (helpers().length > 1) await new Promise((resolve) => setImmediate(resolve));
    });

    it("says of a read that nothing was changed", async () => {
      await write("slow");
      const refusal = await hang("read", "slow", () =>
        call("read", { path: "slow", offset: 0, length: 4 }),
      );
      expect(refusal).to.include({
        code: "filesystem_outcome_unknown",
        retrySafe: true,
        mutationMayHaveApplied: false,
      });
    });

    it("has three such helpers at most: then it waits for the end of one, and refuses what waits too long", async () => {
      await write("slow");
      const read = () => call("read", { path: "slow", offset: 0, length: 4 });
      for (let hung = 1; hung <= 2; hung += 1) {
        await hang("read", "slow", read);
        await next();
        expect(await stat("slow")).to.include({ size: 4 });
      }
      await hang("read", "slow", read);
      await next();
      expect(helpers().sort()).to.deep.equal([
        "file-helper starting",
        ...Array.from({ length: 3 }, () => "hung-file-helper running"),
      ]);
      const waits = refusalOf(() => stat("slow"));
      await room.system.clock.advance(4_000);
      expect(await waits).to.include({ code: "filesystem_busy", retrySafe: true });
      await disk[Symbol.asyncDispose]();
      while (helpers().length > 1) await new Promise((resolve) => setImmediate(resolve));
    });
  });

  describe("that fails", () => {
    before(mount);
    after(unmount);
    afterEach(async () => {
      await disk.heal();
      for (const name of await namesIn(".")) await call("delete", await preview(name));
    });

    const treeOfThree = async (): Promise<Deletion> => {
      for (const name of ["a", "b", "c"]) await write(`tree/${name}`);
      return await preview("tree");
    };

    it("at the first entry of a delete: nothing is gone", async () => {
      const deletion = await treeOfThree();
      await disk.answer("unlink", "*", "EIO");
      const refusal = await refusalOf(() => call("delete", deletion));
      expect(refusal).to.include({ code: "unavailable", mutationMayHaveApplied: false });
      expect(refusal.message).to.match(/input or output error; nothing was done$/);
      expect(await namesIn("tree")).to.deep.equal(["a", "b", "c"]);
    });

    it("in the middle of a delete: it tells how much is gone, and the rest has its names", async () => {
      const deletion = await treeOfThree();
      await disk.answer("unlink", "*", "EIO", 1);
      const refusal = await refusalOf(() => call("delete", deletion));
      expect(refusal).to.include({ code: "unavailable", mutationMayHaveApplied: true });
      expect(refusal.details).to.deep.equal({
        errno: "EIO",
        removed: 1,
        leftUnderTemporaryName: 0,
      });
      expect(await namesIn("tree")).to.deep.equal(["b", "c"]);
    });

    it("and lets nothing be put back: it tells how many stay under a temporary name", async () => {
      const deletion = await treeOfThree();
      await disk.answer("unlink", "*", "EIO", 1);
      // The tree, `a` and `b` are captured; neither `b` nor the tree gets its name again.
      await disk.answer("rename", "*", "EIO", 3);
      const refusal = await refusalOf(() => call("delete", deletion));
      expect(refusal.details).to.deep.equal({
        errno: "EIO",
        removed: 1,
        leftUnderTemporaryName: 2,
      });
      expect(refusal.message).to.match(/error; part of the tree is removed, and what could not/);
      const [left = "", ...others] = await namesIn(".");
      expect([left, others]).to.deep.equal([left.match(/^\.lemon-delete-[0-9a-f]{32}$/)?.[0], []]);
    });

    it("when what was captured is to get its new name: the source is where it was, or is told of", async () => {
      await write("from");
      const { mtimeMs: expectedModifiedAtMs } = await stat("from");
      const move = { path: "from", destination: "to", overwrite: false, expectedModifiedAtMs };
      await disk.answer("rename", "*", "EIO", 1);
      const stays = await refusalOf(() => call("move", move));
      expect(stays.details).to.deep.equal({ errno: "EIO", removed: 0, leftUnderTemporaryName: 1 });
      expect(stays.mutationMayHaveApplied).to.equal(true);
      expect((await namesIn(".")).join()).to.match(/^\.lemon-move-[0-9a-f]{32}$/);
    });

    for (const [errno, code] of [
      ["EDQUOT", "no_space"],
      ["ENOSPC", "no_space"],
      ["EROFS", "read_only_filesystem"],
      ["EIO", "unavailable"],
      ["EFBIG", "too_large"],
    ] as const) {
      it(`with ${errno} in a new file: ${code}, and no debris`, async () => {
        await disk.answer("write", "*", errno);
        const refusal = await refusalOf(() => write("new/file"));
        expect(refusal).to.include({ code, mutationMayHaveApplied: false });
        expect(refusal.details).to.deep.equal({ errno });
        expect(await namesIn(".")).to.deep.equal([]);
      });

      it(`with ${errno} where names change: ${code} for a move, a delete and a directory, and all is as it was`, async () => {
        await write("from/file");
        const { mtimeMs: expectedModifiedAtMs } = await stat("from");
        const deletion = await preview("from");
        await disk.answer("rename", "*", errno);
        await disk.answer("mkdir", "*", errno);
        const move = { path: "from", destination: "to", overwrite: false, expectedModifiedAtMs };
        const changes = [
          () => call("move", move),
          () => call("delete", deletion),
          () => call("mkdir", { path: "made/below" }),
        ];
        for (const change of changes) {
          const refusal = await refusalOf(change);
          expect(refusal).to.include({ code, mutationMayHaveApplied: false });
          expect(refusal.details).to.deep.equal({ errno });
        }
        expect([await namesIn("."), await namesIn("from")]).to.deep.equal([["from"], ["file"]]);
      });

      it(`with ${errno} in a file that was there: ${code}, and it is as it was`, async () => {
        await write("file", "before");
        const { mtimeMs } = await stat("file");
        await disk.answer("write", "file", errno);
        const refusal = await refusalOf(() => write("file", "after!", mtimeMs));
        expect(refusal).to.include({ code, mutationMayHaveApplied: false });
        await disk.heal();
        const { bytes } = Object(await call("read", { path: "file", offset: 0, length: 100 }));
        expect(Buffer.from(bytes).toString()).to.equal("before");
      });
    }

    it("where what was written is to be synced: the outcome is told as unknown, or nothing appears", async () => {
      await disk.answer("fsync", "*", "EIO");
      const refusal = await refusalOf(() => write("new"));
      expect(refusal).to.include({ code: "unavailable", mutationMayHaveApplied: false });
      expect(await namesIn(".")).to.deep.equal([]);
      await disk.heal();
      await disk.answer("fsyncdir", "*", "EIO");
      const inDoubt = await refusalOf(() => write("new"));
      expect(inDoubt).to.include({
        code: "filesystem_outcome_unknown",
        mutationMayHaveApplied: true,
      });
    });
  });
}

function nameOf({ name }: { readonly name: string }): string {
  return name;
}
