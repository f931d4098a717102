import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import { OPERATOR_TOKEN, testGateway } from "../support/gateway.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const PROGRAM = fileURLToPath(new URL("../support/browser-program.ts", import.meta.url));
const TSC = join(root, "node_modules/typescript/bin/tsc");
const NODE_ID = "85ccdaa0-ff5f-4e1d-b2aa-9449409bc2d5";

const RECEIPT = {
  processId: "page:1",
  nodeId: NODE_ID,
  state: "completed",
  exitCode: 0,
  stdoutBase64: "",
  stderrBase64: "",
  outputTruncated: false,
} as const;

describe("the SDK without Node", () => {
  it("connects, reconnects, hears events and settles a lost answer on the platform's WebSocket alone", async () => {
    let runs = 0;
    const gateway = await testGateway({
      announces: true,
      handlers: {
        async "node.process.run"(_params, caller) {
          runs += 1;
          caller.close(1012, "restart");
          await once(caller.closed, "abort");
          return RECEIPT;
        },
        "node.process.get": () => RECEIPT,
      },
    });
    try {
      const words = [PROGRAM, gateway.url, OPERATOR_TOKEN, NODE_ID];
      const { stdout } = await run(process.execPath, words);
      const { modules, ...met } = JSON.parse(stdout);
      expect(met).to.deep.equal({
        refused: "a browser has no node:fs",
        ok: true,
        receipt: RECEIPT,
        told: ["link_lost", "reconnected", "page"],
      });
      expect(modules).to.be.greaterThan(20);
      expect(runs).to.equal(1);
    } finally {
      await gateway.close();
    }
  });

  it("compiles with the types of a browser alone", async () => {
    await run(process.execPath, [TSC, "-p", join(root, "client"), "--noEmit"]);
  });

  it("would not compile with a global of Node", async () => {
    const folder = await mkdtemp(join(tmpdir(), "lemon-client-"));
    try {
      await writeFile(join(folder, "a.ts"), 'export const bytes: unknown = Buffer.from("a");\n');
      const config = {
        extends: join(root, "client/tsconfig.json"),
        compilerOptions: { rootDir: folder },
        include: [folder],
      };
      await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
      const failure = await run(process.execPath, [TSC, "-p", folder, "--noEmit"]).then(
        () => "",
        (error: { readonly stdout?: unknown }) => String(error.stdout),
      );
      expect(failure).to.match(/Cannot find name 'Buffer'/);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
