/** Proves `lemon host` against a real gateway in front of the fake host. */
import { chmodSync } from "node:fs";
import { expect } from "chai";
import { LOST } from "../../actors/job/messages.ts";
import { hostCurl } from "../../cli/host/curl.ts";
import { hostStatus } from "../../cli/host/status.ts";
import { Report } from "../../cli/report.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import type { JobView } from "../../protocol/host-agent/job.ts";
import { asOrdinaryUser } from "../support/file-places.ts";
import { TestShell } from "../support/test-shell.ts";
import { startUnixHttp, type TestGateway } from "../support/unix-http.ts";

const ESC = "\u001b[31m";
const JOB: JobView = {
  job_id: "j_a4f7b2",
  kind: "system-update",
  status: "running",
  progress: 0.429,
  started_at: "2026-12-01T00:00:00Z",
};

describe("lemon host", () => {
  let gateway: TestGateway;
  let job: JobView;
  let shell: TestShell;
  const cancelled: string[] = [];

  before(async () => {
    gateway = await startUnixHttp({
      jobs: {
        list: () =>
          Promise.resolve([
            job,
            { job_id: "j_b00000", kind: "reboot", status: "queued", queue_position: 1 },
          ]),
        get: (id) =>
          id === JOB.job_id
            ? Promise.resolve(job)
            : Promise.reject(new HostAgentError("unknown-job")),
        cancel(id) {
          cancelled.push(id);
          return Promise.resolve({ ...job, status: "cancelling" });
        },
        async log() {
          const line = { ts: "2026-12-01T00:00:00Z" };
          const frames = [
            { id: 1, data: LOST },
            { id: 2, data: { ...line, stream: "stdout" as const, line: "one" } },
            { id: 3, data: { ...line, stream: "stderr" as const, line: `two${ESC}` } },
          ];
          return {
            next: () => Promise.resolve(frames.length === 0 ? null : frames.splice(0)),
            close() {},
          };
        },
      },
    });
  });
  after(() => gateway[Symbol.asyncDispose]());

  beforeEach(() => {
    job = JOB;
    cancelled.length = 0;
    shell = new TestShell({ environment: { MALMO_AGENT_SOCK: gateway.path } });
  });

  it("status shows the host, by the socket that the environment or the flag names", async () => {
    expect(await shell.run("host", "status")).to.equal(0);
    expect(shell.stdout.text).to.match(/^host-agent {2,}\S+agent\.sock\nversion {2,}\d{4}\./);
    expect(shell.stdout.text).to.match(/^disk System .* free of .*$/m);
    const flagged = new TestShell({ cwd: gateway.folder });
    expect(await flagged.run("host", "status", "--json", "--socket", "agent.sock")).to.equal(0);
    expect(flagged.document).to.include({ agent_version: "2026.11.0" });
  });

  it("jobs lists them, with how far they are", async () => {
    expect(await shell.run("host", "jobs")).to.equal(0);
    expect(shell.stdout.text).to.match(/^j_a4f7b2 {2,}system-update {2,}running, 42 % {2,}2026-/m);
    expect(shell.stdout.text).to.match(/^j_b00000 {2,}reboot {2,}queued, position 1 {2,}-$/m);
  });

  describe("job", () => {
    const ends: readonly (readonly [Partial<JobView>, number, RegExp])[] = [
      [{}, 0, /^status {2,}running, 42 %$/m],
      [{ status: "completed", result: { a: 1 } }, 0, /^result {2,}\{"a":1\}$/m],
      [
        { status: "failed", error: { code: "auth-failed", message: ESC } },
        1,
        /failed \(auth-failed\)/,
      ],
      [{ status: "cancelled" }, 126, /cancelled/],
      [{ status: "stalled" }, 125, /stalled/],
      [{ status: "outcome_unknown" }, 125, /outcome_unknown/],
    ];
    for (const [change, exitCode, said] of ends) {
      it(`that is ${change.status ?? "running"} ends with ${exitCode}`, async () => {
        job = { ...JOB, ...change };
        expect(await shell.run("host", "job", JOB.job_id)).to.equal(exitCode);
        expect(shell.stdout.text).to.match(said);
        expect(shell.stdout.text).not.to.include(ESC);
      });
    }

    it("--follow passes each line to its own stream, says what is lost, and ends with the job", async () => {
      job = { ...JOB, status: "completed" };
      expect(await shell.run("host", "job", JOB.job_id, "--follow")).to.equal(0);
      expect(shell.stdout.text).to.equal("one\n");
      expect(shell.stderr.text).to.equal(
        "lemon: some lines are lost here\ntwo\\u{1b}[31m\nlemon: j_a4f7b2: completed\n",
      );
    });

    it("--follow --json prints a document a line", async () => {
      job = { ...JOB, status: "failed" };
      expect(await shell.run("host", "job", JOB.job_id, "--follow", "--json")).to.equal(1);
      const documents = shell.stdout.text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
      expect(documents.map((document) => Object.keys(document)[0])).to.deep.equal([
        "lost",
        "ts",
        "ts",
        "job_id",
      ]);
    });

    it("that is not known ends with 122", async () => {
      expect(await shell.run("host", "job", "j_000000", "--json")).to.equal(122);
      expect(shell.document).to.deep.equal({
        error: {
          code: "unknown-job",
          message: "jobGet: no such job (unknown-job)",
          status: 404,
          retrySafe: true,
          mutationMayHaveApplied: false,
          exitCode: 122,
        },
      });
    });
  });

  it("cancel asks the job to stop", async () => {
    expect(await shell.run("host", "cancel", JOB.job_id)).to.equal(0);
    expect(shell.stdout.text).to.equal("j_a4f7b2 is cancelling\n");
    expect(cancelled).to.deep.equal([JOB.job_id]);
  });

  it("logs follows a container until Ctrl-C", async () => {
    const ended = shell.run("host", "logs", "malmo-photos-web");
    while (shell.stdout.text.split("\n").length < 3) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    shell.send("SIGINT");
    expect(await ended).to.equal(0);
    expect(shell.listeners("SIGINT")).to.equal(0);
  });

  describe("curl", () => {
    it("prints the answer as it is", async () => {
      expect(await shell.run("host", "curl", "/v1/identity/well-known")).to.equal(0);
      expect(shell.stdout.text).to.equal(
        '{"malmo_app_uid":2000,"malmo_app_gid":2000,"malmo_shared_gid":2001}\n',
      );
    });

    it("sends a body as POST, also from stdin, or by the method that is named", async () => {
      const piped = new TestShell({
        environment: { MALMO_AGENT_SOCK: gateway.path },
        stdin: '{"zone":"Etc/UTC"}',
      });
      expect(await piped.run("host", "curl", "/v1/system/set-timezone", "-d", "-")).to.equal(0);
      expect(piped.stdout.text).to.equal("{}\n");
      expect(await shell.run("host", "curl", "/v1/system/set-timezone", "-X", "get")).to.equal(121);
      expect(shell.stdout.text).to.include("method-not-allowed");
      expect(shell.stderr.text).to.equal("lemon: HTTP 405\n");
    });

    for (const [path, exitCode] of [
      ["/v1/nothing", 122],
      ["/v1/users/..%00/home", 122],
      ["v1/system/status", 2],
      ["/v1/system status", 2],
      ["/v1/\n", 2],
    ] as const) {
      it(`of ${JSON.stringify(path)} ends with ${exitCode}`, async () => {
        expect(await shell.run("host", "curl", path)).to.equal(exitCode);
      });
    }
  });

  it("says of a socket that this account may not open what would help", async () => {
    chmodSync(gateway.path, 0);
    try {
      const report = new Report(shell, false);
      for (const refused of [
        () => hostStatus(shell, report, {}),
        () => hostCurl(shell, report, { data: "{}" }, "/v1/system/set-timezone"),
      ]) {
        const failure = await asOrdinaryUser(refused).catch((error: unknown) => error);
        expect(failure).to.include({ code: "permission_denied", mutationMayHaveApplied: false });
        expect(String(failure)).to.match(/may not open the socket; nothing was sent: run this as/);
      }
    } finally {
      chmodSync(gateway.path, 0o600);
    }
  });

  for (const words of [
    ["host", "status"],
    ["host", "curl", "/v1/system/status"],
  ]) {
    it(`${words.join(" ")} says that nobody answers`, async () => {
      const alone = new TestShell();
      expect(await alone.run(...words, "--socket", "/nonexistent/agent.sock")).to.equal(1);
      expect(alone.stderr.text).to.match(
        /^lemon: nobody answers on the socket; nothing was sent: start lemon host-agent/,
      );
    });
  }
});
