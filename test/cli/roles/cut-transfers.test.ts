/**
 * Proves that a large file arrives whole over links that are cut in the middle of it. `LEMON_TEST_TRANSFER_MIB`
 * makes it larger than it is in every run.
 */
import { createHash, randomBytes } from "node:crypto";
import { createReadStream, readdirSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { expect } from "chai";
import { RoleStage, type StartedController, type StartedNode } from "../../support/role-stage.ts";
import { type TcpProxy, tcpProxy } from "../../support/tcp-proxy.ts";

const MIB = 1_048_576;
const SIZE_MIB = Number(process.env["LEMON_TEST_TRANSFER_MIB"] ?? 24);
/** No whole number of chunks. */
const SIZE = SIZE_MIB * MIB + 12_345;
const TOKEN = "operator-token-of-cut-transfers-0123456789";

describe(`a file of ${SIZE_MIB} MiB`, function () {
  this.timeout(60_000 + SIZE_MIB * 1_000);
  let stage: RoleStage;
  let controller: StartedController;
  let worker: StartedNode;
  /** On the way between the worker and its controller. */
  let nodeLink: TcpProxy;
  /** On the way between the command and the controller. */
  let operatorLink: TcpProxy;
  let digest: string;

  before(async () => {
    stage = new RoleStage();
    controller = await stage.controller("start", {
      environment: { LEMON_CONTROL_PLANE_OPERATOR_TOKEN: TOKEN },
    });
    nodeLink = await tcpProxy(controller.port);
    operatorLink = await tcpProxy(controller.port);
    worker = await stage.node(
      { url: through(nodeLink) },
      { environment: { LEMON_NODE_OPERATOR_TOKEN: TOKEN } },
    );
    digest = await makeFile(join(stage.path, "sent.bin"));
  });
  after(async () => {
    await nodeLink[Symbol.asyncDispose]();
    await operatorLink[Symbol.asyncDispose]();
    await stage[Symbol.asyncDispose]();
  });

  const through = (proxy: TcpProxy): string => controller.url.replace(/:\d+/, `:${portOf(proxy)}`);

  const environment = () => ({ LEMON_CONTROLLER: through(operatorLink), LEMON_WS_TOKEN: TOKEN });

  /** Cuts both links three times each at random places while the command runs; the command ends after that. */
  async function copied(...words: readonly string[]) {
    const cuts = [nodeLink, operatorLink].map(async (link) => {
      let passed = 0;
      for (const place of threePlaces()) {
        await link.cutAfter(place - passed);
        passed = place;
      }
    });
    const ended = await stage.lemon(["fs", ...words, "--json"], environment());
    expect(ended.exitCode, ended.stderr).to.equal(0);
    await Promise.all(cuts);
    return JSON.parse(ended.stdout.toString());
  }

  /** Interrupts the command when the connection was cut at half; both copies together have to be the file. */
  async function interrupted(...words: readonly string[]): Promise<void> {
    const half = operatorLink.cutAfter(Math.ceil(SIZE / 2));
    const command = stage.command(["fs", ...words, "--json"], environment());
    await half;
    command.child.kill("SIGINT");
    const { exitCode, signal, stderr } = await command.ended();
    expect([exitCode, signal], stderr).to.deep.equal([1, null]);
    expect(stderr).to.include("Stopped; what is there of the file stays beside its place");
    const again = await stage.lemon(["fs", ...words, "--json"], environment());
    expect(again.exitCode, again.stderr).to.equal(0);
    expect(JSON.parse(again.stdout.toString()).resumedAt).to.be.within(1, SIZE - 1);
  }

  it("is put whole when the command is interrupted and given again, and leaves nothing beside it", async () => {
    await interrupted("put", "sent.bin", "worker:again.bin");
    expect(await digestOf(join(stage.folder("user"), "again.bin"))).to.equal(digest);
    expect(readdirSync(stage.folder("user"))).to.deep.equal(["again.bin"]);
    rmSync(join(stage.folder("user"), "again.bin"));
  });

  it("arrives bit for bit on a node while the node's link and the command's are cut three times each", async () => {
    const document = await copied("put", "sent.bin", "worker:put.bin");
    expect(document).to.deep.include({ size: SIZE, resumedAt: 0 });
    expect(await digestOf(join(stage.folder("user"), "put.bin"))).to.equal(digest);
    expect(readdirSync(stage.folder("user"))).to.deep.equal(["put.bin"]);
  });

  it("is got whole when the command is interrupted and given again, and leaves nothing beside it", async () => {
    await interrupted("get", "worker:put.bin", "again.bin");
    expect(await digestOf(join(stage.path, "again.bin"))).to.equal(digest);
  });

  it("comes back bit for bit while both are", async () => {
    const document = await copied("get", "worker:put.bin", "got.bin");
    expect(document).to.deep.include({ nodeId: worker.nodeId, size: SIZE, resumedAt: 0 });
    expect(await digestOf(join(stage.path, "got.bin"))).to.equal(digest);
    expect(readdirSync(stage.path).filter((name) => name.startsWith(".lemon"))).to.deep.equal([]);
  });
});

const portOf = ({ url }: TcpProxy): string => new URL(url).port;

/** In a file, in their order: no two of them one. */
function threePlaces(): readonly number[] {
  const third = Math.floor(SIZE / 3);
  return [0, 1, 2].map((part) => part * third + 1 + Math.floor(Math.random() * (third - 1)));
}

/** Answers the digest of what it wrote: nothing in it can be compressed, or told from its neighbour by place. */
async function makeFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  const file = await open(path, "w");
  try {
    for (let left = SIZE; left > 0; ) {
      const bytes = randomBytes(Math.min(left, 4 * MIB));
      hash.update(bytes);
      await file.writeFile(bytes);
      left -= bytes.length;
    }
  } finally {
    await file.close();
  }
  return hash.digest("hex");
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path), hash);
  return hash.digest("hex");
}
