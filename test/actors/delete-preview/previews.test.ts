import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { type FileRoom, fileRoom } from "../../support/file-room.ts";
import { codeOfRejection } from "../../support/supervision.ts";

async function preview(room: FileRoom, path: string): Promise<string> {
  const answer = Object(await room.files.call("preview", { caller: "a", path, recursive: false }));
  expect(answer).to.not.have.property("candidates");
  return answer.confirmationToken;
}

const previewCode = (room: FileRoom, path: string): Promise<string> =>
  codeOfRejection(preview(room, path));

const remove = (room: FileRoom, confirmationToken: string, path: string, confirm = path) =>
  codeOfRejection(room.files.call("delete", { caller: "b", path, confirm, confirmationToken }));

function file(room: FileRoom, name: string): string {
  const path = join(room.folder, name);
  writeFileSync(path, "");
  return path;
}

describe("a delete preview", () => {
  it("lets what was previewed be deleted once", async () => {
    await using room = await fileRoom();
    const path = file(room, "a");
    const token = await preview(room, "a");
    expect(token).to.match(/^[\w-]{43}$/);
    expect(await remove(room, token, "a")).to.equal("answered");
    expect(existsSync(path)).to.equal(false);
    file(room, "a");
    expect(await remove(room, token, "a")).to.equal("invalid_confirmation_token");
    expect(existsSync(path)).to.equal(true);
  });

  it("lets one of two deletions with the same token through", async () => {
    await using room = await fileRoom();
    file(room, "a");
    const token = await preview(room, "a");
    const both = await Promise.all([remove(room, token, "a"), remove(room, token, "a")]);
    expect(both.sort()).to.deep.equal(["answered", "invalid_confirmation_token"]);
  });

  it("demands the path as the caller wrote it, and is not spent on another", async () => {
    await using room = await fileRoom();
    const path = file(room, "a");
    const token = await preview(room, "a");
    for (const confirm of [path, "./a", "a ", "A", ""]) {
      expect(await remove(room, token, "a", confirm), confirm).to.equal("invalid_confirmation");
    }
    expect(await remove(room, token, "./a", "a")).to.equal("invalid_confirmation");
    expect(await remove(room, token, "./a")).to.equal("invalid_confirmation");
    expect(existsSync(path)).to.equal(true);
    expect(await remove(room, token, "a")).to.equal("answered");
  });

  it("knows no token that it did not give", async () => {
    await using room = await fileRoom();
    await using other = await fileRoom();
    file(room, "a");
    file(other, "a");
    const token = await preview(other, "a");
    await preview(room, "a");
    for (const forged of [token, "", "x", `${token}=`]) {
      expect(await remove(room, forged, "a")).to.equal("invalid_confirmation_token");
    }
  });

  it("is good for five minutes, and no longer", async () => {
    await using room = await fileRoom();
    file(room, "a");
    const inTime = await preview(room, "a");
    await room.system.clock.advance(1);
    const late = await preview(room, "a");
    await room.system.clock.advance(299_998);
    expect(await remove(room, inTime, "a")).to.equal("answered");
    file(room, "a");
    await room.system.clock.advance(2);
    expect(await remove(room, late, "a")).to.equal("invalid_confirmation_token");
  });

  it("is void after its five minutes also when the timer is late", async () => {
    await using room = await fileRoom();
    file(room, "a");
    const token = await preview(room, "a");
    room.system.clock.stall(300_000);
    expect(await remove(room, token, "a")).to.equal("invalid_confirmation_token");
  });

  it("does not outlive the helper that made it", async () => {
    await using room = await fileRoom();
    const path = file(room, "a");
    const token = await preview(room, "a");
    await codeOfRejection(room.files.call("stat", { caller: "a", path: "die" }));
    await room.nextHelper();
    expect(await remove(room, token, "a")).to.equal("invalid_confirmation_token");
    expect(existsSync(path)).to.equal(true);
    expect(room.row("/previews")?.children).to.deep.equal([]);
  });

  it("has an actor of its own, which ends with it and bears nothing of it in its name", async () => {
    await using room = await fileRoom();
    file(room, "canary");
    const token = await preview(room, "canary");
    const [row] = room.row("/previews")?.children ?? [];
    expect(row?.kind).to.equal("delete-preview");
    expect(JSON.stringify(room.system.snapshot())).to.not.include("canary").and.not.include(token);
    await remove(room, token, "canary");
    await room.system.clock.advance(0);
    expect(room.row("/previews")?.children).to.deep.equal([]);
  });

  it("is one of at most 128", async () => {
    await using room = await fileRoom();
    const tokens: string[] = [];
    for (let count = 0; count < 128; count += 1) tokens.push(await preview(room, "a"));
    expect(await previewCode(room, "a")).to.equal("filesystem_busy");
    file(room, "a");
    expect(await remove(room, tokens[0] ?? "", "a")).to.equal("answered");
    await room.system.clock.advance(0);
    expect(await previewCode(room, "a")).to.equal("answered");
    expect(await previewCode(room, "a")).to.equal("filesystem_busy");
    await room.system.clock.advance(300_000);
    expect(await previewCode(room, "a")).to.equal("answered");
  });

  it("holds with all others at most 20,000 entries", async () => {
    await using room = await fileRoom();
    await preview(room, "entries-10000");
    await preview(room, "entries-9999");
    expect(await previewCode(room, "entries-2")).to.equal("filesystem_busy");
    expect(await previewCode(room, "entries-1")).to.equal("answered");
    expect(await previewCode(room, "entries-1")).to.equal("filesystem_busy");
  });

  it("holds with all others at most 16 MiB of candidates", async () => {
    await using room = await fileRoom();
    await preview(room, "bytes-8388608");
    await preview(room, "bytes-8388607");
    expect(await previewCode(room, "bytes-2")).to.equal("filesystem_busy");
    expect(await previewCode(room, "bytes-1")).to.equal("answered");
    expect(await previewCode(room, "bytes-1")).to.equal("filesystem_busy");
  });
});
