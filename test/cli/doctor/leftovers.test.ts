/** Proves what the doctor finds of interrupted work on files. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Finding } from "../../../cli/doctor/check.ts";
import { checkLeftovers } from "../../../cli/doctor/leftovers.ts";
import { ExaminedMachine } from "../../support/examined-machine.ts";

describe("the doctor's look at what interrupted file work left", () => {
  let machine: ExaminedMachine;
  beforeEach(async () => {
    machine = await ExaminedMachine.open();
  });
  afterEach(() => machine[Symbol.asyncDispose]());

  it("warns of what an interrupted delete or move left below the home directory and the added roots, and of nothing else", async () => {
    const root = join(machine.folder, "root");
    const random = "0123456789abcdef".repeat(2);
    for (const path of [
      `home/.lemon-doctor-${random}`,
      `user/a/.lemon-delete-${random}/.lemon-delete-${random}`,
      `user/.lemon-move-notes`,
      `home/.lemon-delete-${random}`,
      "root/b",
    ])
      mkdirSync(join(machine.folder, path), { recursive: true });
    writeFileSync(join(root, "b", `.lemon-move-${random}`), "");
    symlinkSync(root, join(machine.folder, "user/to-root"));
    const roots = [join(machine.folder, "user"), root];
    const found = await checkLeftovers(roots, machine.home);
    expect(found.level).to.equal("warn");
    expect(found.finding).to.equal(
      `2 left: ${join(root, "b", `.lemon-move-${random}`)} ${join(machine.folder, "user/a", `.lemon-delete-${random}`)}`,
    );
    const none = await checkLeftovers([machine.home], machine.home, { entries: 2, ms: 60_000 });
    expect(none.level).to.equal("warn");

    const shell = machine.shell();
    await shell.run("doctor", "--json", "--allowed-root", root);
    const { checks } = shell.document as { readonly checks: Finding[] };
    const told = checks.find(({ name }) => name === "interrupted file work");
    expect(told?.finding).to.match(/^1 left: /);
  });

  it("warns of the part of an upload, and says that the same upload goes on with it", async () => {
    const root = join(machine.folder, "root");
    mkdirSync(root);
    const part = join(root, `.lemon-put-${"0123456789ab".repeat(2)}`);
    for (const path of [part, `${part}0`, join(root, ".lemon-put-notes")]) writeFileSync(path, "");
    const found = await checkLeftovers([root], machine.home);
    expect(found).to.include({ level: "warn", finding: `1 left: ${part}` });
    expect(found.mend).to.include("lemon fs put").and.not.include(".lemon-delete-");
  });

  it("says when it could not look at everything", async () => {
    const root = join(machine.folder, "root");
    mkdirSync(join(root, "a"), { recursive: true });
    mkdirSync(join(root, "b"));
    const all = await checkLeftovers([root], machine.home, { entries: 2, ms: 60_000 });
    expect(all.finding).to.equal("none is left");
    const some = await checkLeftovers([root], machine.home, { entries: 1, ms: 60_000 });
    expect(some.finding).to.equal("none is left among the 1 entries looked at");
  });
});
