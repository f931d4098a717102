import {
  chmodSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { expect } from "chai";
import { filesHolding } from "../../support/canaries.ts";
import { refusalOf } from "../../support/refusal.ts";
import { managedToken, RoleStage } from "../../support/role-stage.ts";

describe("a controller's operator token", () => {
  let stage: RoleStage;
  beforeEach(() => {
    stage = new RoleStage();
  });
  afterEach(() => stage[Symbol.asyncDispose]());

  it("is kept: the next controller on the port takes the same, and the old client's is still good", async () => {
    const first = await stage.controller("start");
    const token = managedToken(first);
    await first.role.end("SIGTERM");
    const again = stage.role(["start", "--port", String(first.port)], first.home);
    const ready = await again.said("ready");
    expect(managedToken({ ready })).to.equal(token);
    await stage.client(first.url, token);
    const refused = await refusalOf(() => stage.client(first.url, `${token}x`));
    expect(refused.message).to.equal("Invalid token");
  });

  it("is refused, in one line that says what to mend, when its file is not as we left it", async () => {
    const first = await stage.controller("start");
    await first.role.end("SIGTERM");
    const file = String(first.ready["tokenFile"]);
    const content = readFileSync(file);
    const elsewhere = `${file}.elsewhere`;
    const spoiled: readonly [string, () => void][] = [
      ["mode", () => chmodSync(file, 0o644)],
      ["mode", () => chmodSync(dirname(file), 0o755)],
      [
        "not_regular",
        () => {
          renameSync(file, elsewhere);
          symlinkSync(elsewhere, file);
        },
      ],
      [
        "not_regular",
        () => {
          rmSync(file);
          mkdirSync(file);
        },
      ],
      ["content", () => writeFileSync(file, "short\n", { mode: 0o600 })],
    ];
    for (const [reason, spoil] of spoiled) {
      spoil();
      const role = stage.role(["start", "--port", String(first.port)], first.home, {
        LEMON_LOG_LEVEL: "warn",
      });
      expect(await role.ended(), reason).to.include({ exitCode: 1 });
      expect(role.log).to.match(
        new RegExp(
          `^lemon: run/control-plane-${first.port}\\.token in LEMON_HOME .*${reason}.*\\n$`,
        ),
      );
      rmSync(file, { recursive: true });
      writeFileSync(file, content, { mode: 0o600 });
      chmodSync(dirname(file), 0o700);
    }
    expect(stage.living()).to.deep.equal([]);
  });

  it("opens the guarded spaces of HTTP, but one that has a token of its own", async () => {
    const own = "acp-token-of-the-tests-0123456789abcdef";
    const environment = { LEMON_ACP_API_TOKEN: own };
    const started = await stage.controller("start", { environment });
    const origin = started.url.replace(/^ws(.*)\/ws$/, "http$1");
    const statusOf = async (path: string, token: string): Promise<number> => {
      const headers = { Authorization: `Bearer ${token}` };
      const response = await fetch(`${origin}${path}`, { headers });
      await response.body?.cancel();
      return response.status;
    };
    const operator = managedToken(started);
    for (const [path, token, status] of [
      ["/v1/models", operator, 404],
      ["/v1/models", own, 403],
      ["/acp", operator, 403],
      ["/acp", own, 404],
      ["/acp/ws", own, 401],
      ["/acp/ws", operator, 404],
    ] as const)
      expect(await statusOf(path, token), path).to.equal(status);
  });

  it("comes from the environment without ever touching the disk", async () => {
    const token = "operator-canary-0123456789-abcdefghij";
    const up = await stage.controller("up", {
      environment: { LEMON_CONTROL_PLANE_OPERATOR_TOKEN: token },
    });
    expect(up.ready["tokenFile"]).to.equal(null);
    await up.role.said("probe");
    await stage.client(up.url, token);
    expect(await up.role.end("SIGTERM")).to.equal(0);
    expect(filesHolding(stage.path, token)).to.deep.equal([]);
    expect(up.role.log).to.not.include(token);
  });

  it("is needed on loopback too, unless the opt-in says otherwise", async () => {
    const strict = await stage.controller("start");
    const refused = await refusalOf(() => stage.client(strict.url, null));
    expect(refused).to.include({ code: "unauthorized", message: "Operator token is required" });
    const open = await stage.controller("start", {
      home: stage.folder("open"),
      environment: { LEMON_CONTROL_PLANE_ALLOW_UNAUTHENTICATED_LOOPBACK: "true" },
    });
    const client = await stage.client(open.url, null);
    expect(client.hello.role).to.equal("operator");
    const wrong = await refusalOf(() => stage.client(open.url, "wrong"));
    expect(wrong.message).to.equal("Invalid token");
  });
});
