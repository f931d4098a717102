/** Proves with the real programs what a deletion tells that a failing disk cuts off: over `/ws`, and by command. */
import { expect } from "chai";
import { type FaultyDisk, faultyDisk } from "../../support/faulty-disk.ts";
import { refusalOf } from "../../support/refusal.ts";
import { RoleStage } from "../../support/role-stage.ts";

const TOKEN = "operator-token-of-the-files-0123456789";
const OPERATOR = { LEMON_CONTROL_PLANE_OPERATOR_TOKEN: TOKEN };

// Accounts that may not mount one go without.
const probe = await faultyDisk();
await probe?.[Symbol.asyncDispose]();
if (probe !== null) describe("a deletion on a joined worker's failing disk", onFailingDisk);

function onFailingDisk(): void {
  let disk: FaultyDisk;
  let stage: RoleStage;

  before(async () => {
    const mounted = await faultyDisk();
    if (mounted === null) throw new Error("a second faulty disk was refused");
    disk = mounted;
    stage = new RoleStage();
  });
  after(async () => {
    await disk?.[Symbol.asyncDispose]();
    await stage?.[Symbol.asyncDispose]();
  });

  it("tells what is removed and what stays under a temporary name, and the command says so", async () => {
    const controller = await stage.controller("start", { environment: OPERATOR });
    const { nodeId } = await stage.node(controller, {
      words: ["--allowed-root", disk.path],
      environment: { LEMON_NODE_OPERATOR_TOKEN: TOKEN },
    });
    const client = await stage.client(controller.url, TOKEN);
    const at = (name: string) => ({ nodeId, path: `${disk.path}/${name}` });
    const tree = async (name: string): Promise<void> => {
      for (const file of ["a", "b", "c"])
        await client.call("node.fs.write", {
          ...at(`${name}/${file}`),
          dataBase64: "",
          mkdirs: true,
        });
    };
    const fail = async (): Promise<void> => {
      await disk.answer("unlink", "*", "EIO", 1);
      // The tree, `a` and `b` are captured; neither `b` nor the tree gets its name again.
      await disk.answer("rename", "*", "EIO", 3);
    };

    await tree("one");
    const { path } = at("one");
    const preview = { ...at("one"), recursive: true };
    const { confirmationToken } = await client.call("node.fs.delete.preview", preview);
    await fail();
    const confirmed = { ...at("one"), confirm: path, confirmationToken };
    const refusal = await refusalOf(() => client.call("node.fs.delete", confirmed));
    expect(refusal).to.include({ retrySafe: false, mutationMayHaveApplied: true });
    expect(refusal.details).to.include({ removed: 1, leftUnderTemporaryName: 2 });
    expect(refusal.message).to.include("part of the tree is removed").and.not.include(disk.path);

    await disk.heal();
    await tree("two");
    await fail();
    const words = ["fs", "rm", "-r", "--yes", `${nodeId}:${disk.path}/two`, "--json"];
    const environment = { LEMON_CONTROLLER: controller.url, LEMON_WS_TOKEN: TOKEN };
    const command = await stage.lemon(words, environment);
    const { error } = JSON.parse(String(command.stdout));
    expect(error).to.include({ mutationMayHaveApplied: true });
    expect(error.details).to.include({ removed: 1, leftUnderTemporaryName: 2 });
    expect(error.settle).to.include(`fs stat ${nodeId}:`);
    expect(command.exitCode).to.equal(125);
  });
}
