import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { LemonError } from "../../../protocol/errors.ts";
import { type FileRoom, fileRoom } from "../../support/file-room.ts";
import { codeOfRejection } from "../../support/supervision.ts";

const stat = (room: FileRoom, path: string, caller = "a"): Promise<unknown> =>
  room.files.call("stat", { caller, path });

const write = (room: FileRoom, path: string, bytes: Uint8Array = Buffer.from("x"), caller = "a") =>
  room.files.call("write", {
    caller,
    path,
    bytes,
    offset: 0,
    truncate: true,
    mkdirs: false,
    expectedModifiedAtMs: null,
  });

async function failureOf(promise: Promise<unknown>): Promise<LemonError> {
  const failure = await promise.catch((error: unknown) => error);
  if (!(failure instanceof LemonError)) throw new Error("it did not fail as it should");
  return failure;
}

describe("the file service", () => {
  it("answers what the helper answers, bytes as bytes and refusals with their code", async () => {
    await using room = await fileRoom();
    const bytes = Uint8Array.of(0, 255, 10, 13);
    await write(room, "a.bin", bytes);
    const read = { caller: "a", path: "a.bin", offset: 0, length: 4 };
    expect(Object(await room.files.call("read", read)).bytes).to.deep.equal(bytes);
    expect(await codeOfRejection(stat(room, "missing"))).to.equal("not_found");
    expect(await stat(room, "a.bin")).to.include({ size: 4 });
  });

  it("validates every request itself", async () => {
    await using room = await fileRoom();
    expect(await codeOfRejection(stat(room, "../a"))).to.equal("invalid_path");
    expect(await codeOfRejection(write(room, "a", new Uint8Array(1_048_577)))).to.equal(
      "too_large",
    );
    expect(await codeOfRejection(room.files.call("stat", { path: "a" }))).to.equal(
      "invalid_params",
    );
    expect(await codeOfRejection(room.files.call("stat", null))).to.equal("invalid_params");
    expect(existsSync(join(room.folder, "a"))).to.equal(false);
  });

  it("says of a write that was cut off that it may have happened, and goes on with the next helper", async () => {
    await using room = await fileRoom();
    const cut = failureOf(write(room, "hang"));
    // The write itself has happened; its answer never comes.
    while (!existsSync(join(room.folder, "hang"))) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    await room.system.clock.advance(25_000);
    expect(await cut).to.include({
      code: "filesystem_outcome_unknown",
      wire: "TIMEOUT",
      retrySafe: false,
      mutationMayHaveApplied: true,
    });
    const next = stat(room, "b");
    await room.nextHelper();
    expect(await next).to.include({ size: 0 });
    expect(readFileSync(join(room.folder, "hang"), "utf8")).to.equal("x");
  });

  it("says of a read that was cut off that it may be sent again", async () => {
    await using room = await fileRoom();
    const failure = await failureOf(stat(room, "die"));
    expect(failure).to.include({
      code: "filesystem_outcome_unknown",
      wire: "UNAVAILABLE",
      retrySafe: true,
      mutationMayHaveApplied: false,
    });
    const next = stat(room, "b");
    await room.nextHelper();
    expect(await next).to.include({ size: 0 });
  });

  it("refuses what would begin too late to be answered for certain", async () => {
    await using room = await fileRoom();
    await stat(room, "ready");
    const hung = failureOf(stat(room, "hang"));
    const waits = failureOf(write(room, "late"));
    await room.system.clock.advance(3_999);
    expect(await Promise.race([waits, Promise.resolve("waits")])).to.equal("waits");
    await room.system.clock.advance(1);
    expect(await waits).to.include({ code: "filesystem_busy", retrySafe: true });
    await room.system.clock.advance(21_000);
    await hung;
    await room.nextHelper();
    await stat(room, "b");
    expect(existsSync(join(room.folder, "late"))).to.equal(false);
  });

  it("outlives a helper that ends again and again, with all that is beside it", async () => {
    await using room = await fileRoom();
    for (let times = 0; times < 8; times += 1) {
      await failureOf(stat(room, "die"));
      while (room.row("/helpers/helper")?.state !== "backing_off") {
        await new Promise((resolve) => setImmediate(resolve));
      }
      await room.system.clock.advance(10_000);
      writeFileSync(join(room.folder, "a"), "1");
    }
    expect(await stat(room, "a")).to.include({ size: 1 });
    expect(room.row("/files")?.restartsInWindow).to.equal(0);
  });

  it("does not let eight callers with a hundred requests each starve the stat of a ninth", async () => {
    await using room = await fileRoom();
    await stat(room, "ready");
    const finished: string[] = [];
    const all = [..."abcdefgh"].flatMap((caller) =>
      Array.from({ length: 100 }, async () => {
        await stat(room, "a", caller);
        finished.push(caller);
      }),
    );
    await stat(room, "a", "z").then(() => finished.push("z"));
    await Promise.all(all);
    expect(finished).to.have.length(801);
    expect(finished.indexOf("z")).to.be.at.most(10);
  });

  it("serves the stat of a ninth before the chunks that eight callers have waiting", async () => {
    await using room = await fileRoom();
    await stat(room, "ready");
    const finished: string[] = [];
    const chunk = Buffer.alloc(1_048_576);
    const all = [..."abcdefgh"].flatMap((caller) =>
      Array.from({ length: 3 }, async () => {
        await write(room, `copy-${caller}`, chunk, caller);
        finished.push(caller);
      }),
    );
    all.push(stat(room, "a", "z").then(() => void finished.push("z")));
    await Promise.all(all);
    // The one that had begun when it was asked comes first.
    expect(finished.indexOf("z")).to.equal(1);
  });

  it("writes no path, name or byte into the log, whatever goes wrong", async () => {
    await using room = await fileRoom();
    await failureOf(stat(room, "canary-path-die"));
    await room.nextHelper();
    await write(room, "canary-path", Buffer.from("canary-bytes"));
    await failureOf(stat(room, "canary-path/../hang"));
    expect(room.system.text()).to.not.match(/canary/);
  });
});
