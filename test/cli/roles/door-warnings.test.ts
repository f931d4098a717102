import { assert } from "chai";
import { readyLines } from "../../../cli/roles/announcement.ts";
import { type Door, doorWarnings } from "../../../cli/roles/door-warnings.ts";
import { RoleProcess } from "../../support/role-process.ts";
import { tempFolder } from "../../support/temp-folder.ts";

const CLOSED: Door = {
  host: "127.0.0.1",
  port: 4_040,
  hasTls: false,
  givenToken: null,
  unauthenticatedLoopback: false,
};
const warningsOf = (door: Partial<Door>): string => doorWarnings({ ...CLOSED, ...door }).join("\n");

describe("what a controller's start warns of", () => {
  it("is nothing on loopback with its own token, nor with TLS", () => {
    for (const host of ["127.0.0.1", "127.1.2.3", "::1", "localhost"]) {
      assert.equal(warningsOf({ host }), "");
    }
    assert.equal(warningsOf({ host: "0.0.0.0", hasTls: true }), "");
  });

  it("is a plain-text port that others can reach", () => {
    for (const host of ["0.0.0.0", "::"]) {
      assert.match(
        warningsOf({ host }),
        /^warning: port 4040 of every address of this machine speaks no TLS.*--tls-cert/,
      );
    }
    assert.include(warningsOf({ host: "192.0.2.7" }), "port 4040 of 192.0.2.7 speaks no TLS");
  });

  it("is a given token of fewer than 32 characters, which is not shown", () => {
    assert.equal(warningsOf({ givenToken: "s".repeat(32) }), "");
    const warning = warningsOf({ givenToken: "s".repeat(31) });
    assert.match(warning, /OPERATOR_TOKEN has fewer than 32 characters/);
    assert.notInclude(warning, "ssss");
  });

  it("is the door that is open to all of this machine", () => {
    assert.include(warningsOf({ unauthenticatedLoopback: true }), "without a token");
  });

  it("is told at a real start, a line each, and nothing is refused", async () => {
    using home = tempFolder();
    const controller = new RoleProcess(["start", "--host", "0.0.0.0", "--port", "0"], {
      home: home.path,
      environment: {
        LEMON_CONTROL_PLANE_OPERATOR_TOKEN: "short",
        LEMON_CONTROL_PLANE_ALLOW_UNAUTHENTICATED_LOOPBACK: "true",
      },
    });
    await controller.said("ready");
    const warnings = controller.log.split("\n").filter((line) => line.includes("warning:"));
    assert.equal(warnings.length, 3);
    assert.equal(await controller.end("SIGTERM"), 0);
  });

  it("stands beside a line that says what is listened on, and where it is reached from here", () => {
    const ready = { port: 4_141, url: "ws://127.0.0.1:4141/ws", nodeId: null, tokenFile: null };
    const [open = ""] = readyLines({ host: "0.0.0.0", ...ready });
    assert.match(open, /listens on every address of this machine, port 4141; from here it is ws:/);
    const [local = ""] = readyLines({ host: "127.0.0.1", ...ready });
    assert.match(local, /listens on ws:\/\/127\.0\.0\.1:4141\/ws$/);
  });
});
